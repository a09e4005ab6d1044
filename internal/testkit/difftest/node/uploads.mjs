// Makes the calls that standard input has, one JSON object a line, each of which sends much, and tells how each ended.
//
// usage: uploads.mjs MODULES ADDRESS
import { createInterface } from 'node:readline'
import { createRequire } from 'node:module'

const [modules, address] = process.argv.slice(2)
const grpc = createRequire(modules + '/')('@grpc/grpc-js')
const client = new grpc.Client(address, grpc.credentials.createInsecure(), { 'grpc.max_send_message_length': -1 })
const bytes = (b) => b

function upload(call) {
  return new Promise((resolve) => {
    const metadata = new grpc.Metadata()
    for (const [k, v] of Object.entries(call.metadata)) metadata.set(k, v)
    const ended = (err) => resolve({
      code: err?.code ?? 0, message: err?.details, details: err?.metadata.get('grpc-status-details-bin')[0]?.toString('base64'),
    })
    const message = Buffer.alloc(call.size)
    if (!call.stream) {
      client.makeUnaryRequest(call.path, bytes, bytes, message, metadata, ended)
      return
    }
    const stream = client.makeClientStreamRequest(call.path, bytes, bytes, metadata, ended)
    const write = (left) => left > 0 && stream.write(message, () => write(left - 1)) // it never ends what it sends
    write(call.stream)
  })
}

for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(await upload(JSON.parse(line))))
process.exit(0)
