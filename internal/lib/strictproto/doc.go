// Package strictproto reads protobuf messages in the one way in which every decoder reads them, or not at all.
//
// A gateway decides on a message that somebody else decodes. Decoders agree on what encoders write, and on little
// beside that:
//
//   - protobuf.js takes a field by its number alone, whatever its wire type.
//   - Pure Python looks fields up by the bytes of their tag, so one that is not minimal is another field.
//   - upb drops an entry of a map that has a field which it does not know.
//   - Some take the first value of a field that is there twice, some the last, some merge them.
//   - Some keep a byte order mark at the beginning of a text, some drop it.
//
// So what no encoder writes and two decoders may read differently is ErrAmbiguous, and what no decoder takes is
// ErrMalformed. Fields that a Shape does not know pass, as encoders of newer schemas write them.
package strictproto
