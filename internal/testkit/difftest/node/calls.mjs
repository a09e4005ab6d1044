// Makes the calls that standard input has, one JSON object a line, and tells how each ended.
//
// usage: calls.mjs MODULES DESCRIPTORS ADDRESS ENCODER, the second a FileDescriptorSet of proto/selu;
// encoders: protobufjs (7) and protobufjs8, google-protobuf, connect (@bufbuild/protobuf over connect-node)
import { createInterface } from 'node:readline'
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const [modules, descriptors, address, encoder] = process.argv.slice(2)
const require = createRequire(modules + '/')
const packages = { live: 'selu.capability.v1', doc: 'selu.capability', legacy: 'capgate.selu.legacy' }
const services = { live: 'selu.capability.v1.Capability', doc: 'selu.capability.Capability', legacy: 'selu.capability.v1.CapabilityService' }

// fields are those of the request, by their names in the proto.
function fields(call) {
  const args = Buffer.from(call.args, 'base64')
  if (call.dialect === 'legacy') return { tool_name: call.tool, parameters: args.toString(), context: call.context }
  return {
    tool_name: call.tool, args_json: args, config_json: Buffer.from(call.config, 'base64'),
    session_id: call.session, capability_id: call.capability, thread_id: call.thread,
  }
}

function protobufjs(protobuf, protos) {
  const roots = Object.fromEntries(Object.keys(packages).map((d) => {
    const root = new protobuf.Root()
    root.resolvePath = (_, target) => (target.startsWith('/') ? target : protos + '/' + target)
    return [d, root.loadSync(protos + '/' + files[d], { keepCase: true })]
  }))
  return (call) => {
    const type = roots[call.dialect].lookupType(packages[call.dialect] + '.InvokeRequest')
    return Buffer.from(type.encode(type.fromObject(fields(call))).finish())
  }
}

const files = { live: 'selu/capability/v1/capability.proto', doc: 'selu/capability/capability.proto', legacy: 'selu/legacy/legacy.proto' }

// What protoc-gen-js generates, on the writer of google-protobuf. The generator itself is not on npm.
function googleProtobuf() {
  const jspb = require('google-protobuf')
  return (call) => {
    const m = fields(call), writer = new jspb.BinaryWriter()
    const text = (n, v) => v.length > 0 && writer.writeString(n, v)
    const bytes = (n, v) => v.length > 0 && writer.writeBytes(n, v)
    text(1, m.tool_name)
    if (call.dialect === 'legacy') {
      text(2, m.parameters)
      for (const entry of Object.entries(m.context)) {
        writer.writeMessage(3, entry, ([k, v], w) => {
          w.writeString(1, k)
          w.writeString(2, v)
        })
      }
    } else {
      bytes(2, m.args_json)
      bytes(3, m.config_json)
      text(4, m.session_id)
      text(5, m.capability_id)
      text(6, m.thread_id)
    }
    return Buffer.from(writer.getResultBuffer())
  }
}

// byGRPC calls by grpc-js, with messages that encode has made.
function byGRPC(encode) {
  const grpc = require('@grpc/grpc-js')
  const clients = [false, true].map((gzip) => new grpc.Client(address, grpc.credentials.createInsecure(), {
    'grpc.default_compression_algorithm': gzip ? 2 : 0, 'grpc.max_send_message_length': 16 << 20,
  }))
  return (call) => new Promise((resolve) => {
    const metadata = new grpc.Metadata()
    for (const [k, v] of Object.entries(call.metadata)) metadata.set(k, v)
    const client = clients[+call.gzip], path = `/${services[call.dialect]}/${call.method}`
    const ended = (err) => resolve({ code: err?.code ?? 0, message: err?.details })
    if (call.method === 'Invoke') {
      client.makeUnaryRequest(path, encode, (b) => b, call, metadata, ended)
      return
    }
    const stream = client.makeServerStreamRequest(path, encode, (b) => b, call, metadata)
    stream.on('data', () => {})
    stream.on('error', ended)
    stream.on('end', () => ended())
  })
}

async function byConnect() {
  const load = async (name) => import(pathToFileURL(require.resolve(name)))
  const { fromBinary, create, createFileRegistry } = await load('@bufbuild/protobuf')
  const { FileDescriptorSetSchema } = await load('@bufbuild/protobuf/wkt')
  const { createClient, ConnectError } = await load('@connectrpc/connect')
  const { createGrpcTransport, compressionGzip } = await load('@connectrpc/connect-node')
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors)))
  const transports = [{}, { sendCompression: compressionGzip, compressMinBytes: 0 }].map((options) =>
    createGrpcTransport({ baseUrl: `http://${address}`, ...options }))
  return async (call) => {
    const client = createClient(registry.getService(services[call.dialect]), transports[+call.gzip])
    const camel = (name) => name.replace(/_(.)/g, (_, c) => c.toUpperCase())
    const message = create(registry.getMessage(packages[call.dialect] + '.InvokeRequest'),
      Object.fromEntries(Object.entries(fields(call)).map(([k, v]) => [camel(k), v])))
    const unknown = Buffer.from(call.unknown, 'base64')
    if (unknown.length > 0) message.$unknown = fromBinary(registry.getMessage(packages[call.dialect] + '.InvokeRequest'), unknown).$unknown
    try {
      if (call.method === 'Invoke') await client.invoke(message, { headers: call.metadata })
      else for await (const _ of client.streamInvoke(message, { headers: call.metadata })) { /* to the end */ }
      return { code: 0 }
    } catch (err) {
      return err instanceof ConnectError ? { code: err.code, message: err.rawMessage } : Promise.reject(err)
    }
  }
}

const protos = process.argv[6]
const make = encoder === 'connect' ? await byConnect()
  : byGRPC(encoder === 'google-protobuf' ? googleProtobuf() : protobufjs(require(encoder), protos))
for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(await make(JSON.parse(line))))
process.exit(0)
