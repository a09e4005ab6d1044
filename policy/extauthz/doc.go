// Package extauthz asks an external decision on calls that policy would allow or ask about:
// OpenParallax Shield, over gRPC (openparallax.v1.ShieldService/Evaluate) or over HTTP
// (POST /evaluate of its standalone server).
//
//	call ──► cache ──► one question for all who ask the same ──► a free place ──► Shield
//	           │                                                                    │
//	           └──────────── verdict: ALLOW, BLOCK, ESCALATE ◄──────────────────────┘
//
// Shield can only make things stricter: of the gateway's own answer and Shield's the stricter
// counts, so that ALLOW takes no question to a person away. ESCALATE is a question.
//
// A verdict is kept until its expires_at, an hour at most, for the very same action of the
// same tenant: its type, capability, tool and the bytes of its arguments.
//
// # What is sent
//
// The tool and its arguments, and nothing else: neither who calls nor any configuration,
// which holds credentials. The tool is "capability__tool"; the action's type is the tool's own
// name in lower case, which is what Shield takes for the type of a tool that it does not know
// (openparallax/openparallax, shield/mcpgateway.go). Shield's two forms of a question, type and
// payload or tool and arguments, are both filled in, so that none of its servers judges a
// call without its arguments. Arguments that two readers could understand differently are
// refused and never sent.
//
// # When Shield does not answer
//
// Then OnFailure says what becomes of the call: block (the default), ask or allow. Allow is
// for a Shield that cannot be reached or does not answer in time, and whoever can overload it
// gets around it. What it answered but nobody understands is never taken for allow: at most
// a person is asked.
//
// Arguments, and what Shield says of them, are in no error and no log line.
package extauthz
