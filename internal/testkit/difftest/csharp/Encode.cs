// Encodes the requests that standard input has with Google.Protobuf, and prints each as hex, a line each.
// A line of input has fields in base64, with spaces between: the dialect, tool, arguments, configuration,
// session, capability, thread, unknown fields, then names and values of a legacy context.
using System;
using System.Text;
using Google.Protobuf;

public static class Encode {
  static string Text(string[] f, int i) { return Encoding.UTF8.GetString(Convert.FromBase64String(f[i])); }

  static ByteString Bytes(string[] f, int i) { return ByteString.CopyFrom(Convert.FromBase64String(f[i])); }

  static IMessage Request(string[] f) {
    switch (Text(f, 0)) {
      case "live":
        return new Selu.Capability.V1.InvokeRequest {
          ToolName = Text(f, 1), ArgsJson = Bytes(f, 2), ConfigJson = Bytes(f, 3), SessionId = Text(f, 4), CapabilityId = Text(f, 5), ThreadId = Text(f, 6)
        };
      case "doc":
        return new Selu.Capability.InvokeRequest {
          ToolName = Text(f, 1), ArgsJson = Bytes(f, 2), ConfigJson = Bytes(f, 3), SessionId = Text(f, 4), CapabilityId = Text(f, 5), ThreadId = Text(f, 6)
        };
      default:
        var request = new Capgate.Selu.Legacy.InvokeRequest { ToolName = Text(f, 1), Parameters = Text(f, 2) };
        for (int i = 8; i + 1 < f.Length; i += 2) {
          request.Context.Add(Text(f, i), Text(f, i + 1));
        }
        return request;
    }
  }

  public static void Main() {
    for (string line; (line = Console.ReadLine()) != null; ) {
      string[] fields = line.Split(' ');
      IMessage request = Request(fields);
      request.MergeFrom(Bytes(fields, 7)); // fields that a newer proto has
      Console.WriteLine(BitConverter.ToString(request.ToByteArray()).Replace("-", "").ToLowerInvariant());
    }
  }
}
