// Package selu is Selu's orchestrator as far as a capability notices it:
//
//   - It starts one container for a capability, with SELU_CAPABILITY_ID and, unless the container is shared,
//     SELU_SESSION_ID in its environment, and dials its port 50051: HTTP/2 in cleartext, without metadata or
//
// credential.
//   - It polls Healthcheck every 200 ms, over a channel of its own each time, and gives the capability 30 s to be
//
// ready.
//   - A call may take 120 s and its messages 16 MiB. The capability and the session are named in Invoke and
//
// StreamInvoke.
//   - Files are sent in chunks of 256 KiB, of which the first has the name and the MIME type.
//   - It makes a call once more if the text of its error contains "connect", in any case, or "transport error", even if
//     the call may have been carried out.
//   - A tool's failure is the field error of a response whose status is OK.
//
// The package speaks the protocol of the published orchestrator, selu.capability.v1.
package selu
