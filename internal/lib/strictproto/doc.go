// Package strictproto reads protobuf messages that every decoder reads alike, and rejects all others.
//
// The gateway decides on a message that another program decodes. Decoders agree on the output of encoders, and on
// little else:
//
//   - protobuf.js takes a field by its number alone, whatever its wire type.
//   - Pure Python looks fields up by the bytes of their tag, so one that is not minimal is another field.
//   - upb drops an entry of a map that has a field which it does not know.
//   - Some take the first value of a field that is there twice, some the last, some merge them.
//   - Some keep a byte order mark at the beginning of a text, some drop it.
//
// ErrAmbiguous rejects a message that no encoder writes and that two decoders may read differently. ErrMalformed
// rejects a message that no decoder accepts. Fields unknown to a Shape pass, because encoders of newer schemas write
// them.
package strictproto
