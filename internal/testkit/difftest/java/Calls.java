import capgate.selu.legacy.Legacy;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Iterator;
import java.util.Map;
import selu.capability.CapabilityOuterClass;

/** Makes the calls that standard input has, one JSON object a line, and tells how each ended. */
public final class Calls {
  private static final String LIVE = "selu.capability.v1.";

  private final JsonObject call;

  private Calls(JsonObject call) {
    this.call = call;
  }

  private String text(String name) {
    return call.has(name) ? call.get(name).getAsString() : "";
  }

  private ByteString bytes(String name) {
    return ByteString.copyFrom(Base64.getDecoder().decode(text(name)));
  }

  /** The same with fields that a newer proto has. */
  private <M extends Message> M newer(M message) throws InvalidProtocolBufferException {
    @SuppressWarnings("unchecked")
    M merged = (M) message.toBuilder().mergeFrom(bytes("unknown")).build();
    return merged;
  }

  private Metadata metadata() {
    Metadata metadata = new Metadata();
    for (Map.Entry<String, JsonElement> e : call.getAsJsonObject("metadata").entrySet()) {
      metadata.put(Metadata.Key.of(e.getKey(), Metadata.ASCII_STRING_MARSHALLER), e.getValue().getAsString());
    }
    return metadata;
  }

  private <Q extends Message, A extends Message> void make(Channel channel, String service, Q request, A answer) throws InvalidProtocolBufferException {
    boolean streams = text("method").equals("StreamInvoke");
    MethodDescriptor<Q, A> method = MethodDescriptor.<Q, A>newBuilder()
        .setType(streams ? MethodDescriptor.MethodType.SERVER_STREAMING : MethodDescriptor.MethodType.UNARY)
        .setFullMethodName(MethodDescriptor.generateFullMethodName(service, text("method")))
        .setRequestMarshaller(ProtoUtils.marshaller(request))
        .setResponseMarshaller(ProtoUtils.marshaller(answer))
        .build();
    CallOptions options = call.get("gzip").getAsBoolean() ? CallOptions.DEFAULT.withCompression("gzip") : CallOptions.DEFAULT;
    Channel with = ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(metadata()));
    Q whole = newer(request);
    if (!streams) {
      ClientCalls.blockingUnaryCall(with, method, options, whole);
      return;
    }
    for (Iterator<A> chunks = ClientCalls.blockingServerStreamingCall(with, method, options, whole); chunks.hasNext(); ) {
      chunks.next();
    }
  }

  private void live(Channel channel) throws InvalidProtocolBufferException {
    selu.capability.v1.CapabilityOuterClass.InvokeRequest request = selu.capability.v1.CapabilityOuterClass.InvokeRequest.newBuilder()
        .setToolName(text("tool")).setArgsJson(bytes("args")).setConfigJson(bytes("config")).setSessionId(text("session"))
        .setCapabilityId(text("capability")).setThreadId(text("thread")).build();
    make(channel, LIVE + "Capability", request, text("method").equals("Invoke")
        ? selu.capability.v1.CapabilityOuterClass.InvokeResponse.getDefaultInstance()
        : selu.capability.v1.CapabilityOuterClass.InvokeChunk.getDefaultInstance());
  }

  private void doc(Channel channel) throws InvalidProtocolBufferException {
    CapabilityOuterClass.InvokeRequest request = CapabilityOuterClass.InvokeRequest.newBuilder()
        .setToolName(text("tool")).setArgsJson(bytes("args")).setConfigJson(bytes("config")).setSessionId(text("session"))
        .setCapabilityId(text("capability")).setThreadId(text("thread")).build();
    make(channel, "selu.capability.Capability", request, text("method").equals("Invoke")
        ? CapabilityOuterClass.InvokeResponse.getDefaultInstance()
        : CapabilityOuterClass.InvokeChunk.getDefaultInstance());
  }

  private void legacy(Channel channel) throws InvalidProtocolBufferException {
    Legacy.InvokeRequest.Builder request = Legacy.InvokeRequest.newBuilder().setToolName(text("tool")).setParametersBytes(bytes("args"));
    for (Map.Entry<String, JsonElement> e : call.getAsJsonObject("context").entrySet()) {
      request.putContext(e.getKey(), e.getValue().getAsString());
    }
    make(channel, LIVE + "CapabilityService", request.build(), Legacy.InvokeResponse.getDefaultInstance());
  }

  private void make(Channel channel) throws InvalidProtocolBufferException {
    switch (text("dialect")) {
      case "live":
        live(channel);
        break;
      case "doc":
        doc(channel);
        break;
      default:
        legacy(channel);
    }
  }

  public static void main(String[] args) throws Exception {
    ManagedChannel channel = NettyChannelBuilder.forTarget(args[0]).usePlaintext().build();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = lines.readLine()) != null; ) {
      JsonObject ended = new JsonObject();
      ended.addProperty("code", 0);
      try {
        new Calls(JsonParser.parseString(line).getAsJsonObject()).make(channel);
      } catch (StatusRuntimeException e) {
        ended.addProperty("code", e.getStatus().getCode().value());
        ended.addProperty("message", e.getStatus().getDescription());
      }
      System.out.println(ended);
    }
    channel.shutdownNow();
  }
}
