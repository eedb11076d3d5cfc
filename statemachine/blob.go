package statemachine

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
)

// BlobRef is a value stored in BLOBS: {"$blob": hash, "size": bytes}.
type BlobRef struct {
	Hash string `json:"$blob"` // see BlobHash
	Size int    `json:"size"`
}

// blobPrefix begins every blob reference.
var blobPrefix = []byte(`{"$blob":"`)

// BlobHash is the name of a blob: the SHA-256 of its bytes in 43 characters of
// base64url.
func BlobHash(b []byte) string {
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// AsBlobRef reports whether v is a reference to a blob. A value in a record
// that looks like one always is one: see docs/format.md.
func AsBlobRef(v json.RawMessage) (BlobRef, bool) {
	if !bytes.HasPrefix(v, blobPrefix) {
		return BlobRef{}, false
	}
	dec := json.NewDecoder(bytes.NewReader(v))
	dec.DisallowUnknownFields()
	var ref BlobRef
	if err := dec.Decode(&ref); err != nil || dec.More() {
		return BlobRef{}, false
	}
	return ref, true
}

// blob is a value that a record refers to.
type blob struct {
	hash  string
	bytes []byte
}

// refer returns how a value stands in the record: itself, or a reference to a
// blob if it is large, or if it could be taken for a reference.
func (f *Fold) refer(v json.RawMessage) (json.RawMessage, error) {
	if err := within("value", len(v), MaxValue); err != nil {
		return nil, err
	}
	if len(v) <= f.most && !bytes.HasPrefix(v, blobPrefix) {
		return v, nil
	}
	ref := BlobRef{Hash: BlobHash(v), Size: len(v)}
	f.blobs = append(f.blobs, blob{hash: ref.Hash, bytes: v})
	return marshal(ref)
}
