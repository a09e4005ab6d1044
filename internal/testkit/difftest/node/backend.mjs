// A capability in all dialects that tells, line by line, what it has decoded and run.
//
// usage: backend.mjs MODULES PROTOS 7|8: the folder of node_modules, that of the protos, which protobuf.js
import { createRequire } from 'node:module'
import { writeSync } from 'node:fs'

const [modules, protos, version] = process.argv.slice(2)
const require = createRequire(modules + '/')
const grpc = require('@grpc/grpc-js')
const files = ['selu/capability/v1/capability.proto', 'selu/capability/capability.proto', 'selu/legacy/service.proto']
const live = 'selu.capability.v1', doc = 'selu.capability', legacyMessages = 'capgate.selu.legacy'

const line = (said) => writeSync(1, JSON.stringify(said) + '\n')

// services are what grpc-js serves, by name. protobuf.js 7 comes as everybody has it, by @grpc/proto-loader.
function services7() {
  const loader = require('@grpc/proto-loader')
  const options = { keepCase: true, defaults: true, includeDirs: [protos] }
  const one = (file) => loader.loadSync(file, options)
  return (service) => one(files.find((f) => one(f)[service]))[service]
}

// What proto-loader does, with protobuf.js 8, for which there is none.
function services8() {
  const protobuf = require('protobufjs8')
  const root = (file) => {
    const r = new protobuf.Root()
    r.resolvePath = (_, target) => (target.startsWith('/') ? target : protos + '/' + target)
    return r.loadSync(file, { keepCase: true }).resolveAll()
  }
  const roots = files.map(root)
  const find = (service) => roots.map((r) => r.lookup(service)).find((found) => found?.fullName === '.' + service)
  const read = (type) => (bytes) => type.toObject(type.decode(bytes), { defaults: true })
  const write = (type) => (value) => Buffer.from(type.encode(type.fromObject(value)).finish())
  return (name) => Object.fromEntries(find(name).methodsArray.map((m) => [m.name, {
    path: `/${name}/${m.name}`, requestStream: !!m.requestStream, responseStream: !!m.responseStream,
    requestDeserialize: read(m.resolvedRequestType), requestSerialize: write(m.resolvedRequestType),
    responseDeserialize: read(m.resolvedResponseType), responseSerialize: write(m.resolvedResponseType),
  }]))
}

function readJSON(text) {
  try {
    const value = JSON.parse(text)
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {}
  } catch {
    return {}
  }
}

// ids are the artifacts that JSON names, wherever.
function ids(value) {
  if (value === null || typeof value !== 'object') return []
  const here = value.capability_artifact_id
  return [...(typeof here === 'string' && !Array.isArray(value) ? [here] : []), ...Object.values(value).flatMap(ids)]
}

const first = (call) => call.metadata.get('x-request-id')[0] ?? ''

function ran(call, reserved, method, { tool, args, config, session, capability, thread }) {
  const decoded = readJSON(Buffer.from(args).toString())
  line({
    case: first(call), reserved, method, tool, session, capability, thread,
    args: Buffer.from(args).toString('base64'), config: Buffer.from(config).toString('base64'),
    command: typeof decoded.command === 'string' ? decoded.command : null,
    artifacts: ids(decoded), names: Object.keys(readJSON(Buffer.from(config).toString())),
  })
}

function capability(service, reserved) {
  const invoked = (call, method) => {
    const r = call.request
    ran(call, reserved, `/${service}/${method}`, {
      tool: r.tool_name, args: r.args_json, config: r.config_json, session: r.session_id, capability: r.capability_id, thread: r.thread_id,
    })
  }
  const ok = Buffer.from('{"ran":true}')
  return {
    Invoke(call, done) {
      invoked(call, 'Invoke')
      done(null, { result_json: ok })
    },
    StreamInvoke(call) {
      invoked(call, 'StreamInvoke')
      call.write({ data: ok, done: true })
      call.end()
    },
    UploadInputArtifact(call, done) {
      let name
      call.on('data', (chunk) => { name ??= chunk.filename })
      call.on('end', () => {
        line({ case: first(call), reserved, method: `/${service}/UploadInputArtifact` })
        done(null, { capability_artifact_id: name })
      })
      call.on('error', () => {})
    },
    DownloadOutputArtifact(call) {
      const r = call.request
      line({ case: first(call), reserved, method: `/${service}/DownloadOutputArtifact`, artifacts: [r.capability_artifact_id ?? r.artifact_id] })
      call.write({ data: ok, filename: 'f', done: true })
      call.end()
    },
    Healthcheck: (call, done) => done(null, { ready: true }),
  }
}

function legacy(reserved) {
  return {
    Invoke(call, done) {
      const r = call.request, context = r.context ?? {}
      ran(call, reserved, '/selu.capability.v1.CapabilityService/Invoke', {
        tool: r.tool_name, args: r.parameters, config: context.config_json ?? '',
        session: context.session_id ?? '', capability: context.capability_id ?? '', thread: context.thread_id ?? '',
      })
      done(null, { result: '{"ran":true}', success: true })
    },
    HealthCheck: (call, done) => done(null, { healthy: true }),
  }
}

const find = version === '8' ? services8() : services7()

function serve(reserved) {
  const server = new grpc.Server()
  for (const service of [live + '.Capability', doc + '.Capability']) server.addService(find(service), capability(service, reserved))
  server.addService(find(live + '.CapabilityService'), legacy(reserved))
  return new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (err, port) => (err ? reject(err) : resolve(port)))
  })
}

const ports = [await serve(false), await serve(true)]
line({ ports, runtime: require(version === '8' ? 'protobufjs8/package.json' : 'protobufjs/package.json').version })
process.stdin.resume()
process.stdin.on('end', () => process.exit(0)) // it ends with its parent
