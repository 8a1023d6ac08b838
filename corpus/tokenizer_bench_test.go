package corpus

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// goText is up to limit bytes of the Go tree, in the order of a gotree source.
func goText(b *testing.B, limit int) []byte {
	b.Helper()
	src, err := list(context.Background(), Source{Name: "go", Kind: GoTree, MaxBytes: int64(limit)}, "")
	if err != nil {
		b.Skipf("no Go tree under %s: %v", runtime.GOROOT(), err)
	}
	var text []byte
	for doc, err := range src.documents(context.Background()) {
		if err != nil {
			b.Fatal(err)
		}
		text = append(text, doc...)
	}
	return text
}

func BenchmarkTrain4096(b *testing.B) {
	text := goText(b, 8<<20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		trainer := NewTrainer()
		trainer.Add(text)
		if _, err := trainer.Train(context.Background(), 4096, func(int) {}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	text := goText(b, 4<<20)
	trainer := NewTrainer()
	trainer.Add(text[:1<<20])
	tok, err := trainer.Train(context.Background(), 4096, func(int) {})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	var ids []int32
	for b.Loop() {
		ids = tok.Encode(text, ids[:0])
	}
	b.ReportMetric(float64(len(text))/float64(len(ids)), "bytes/token")
}

func BenchmarkSave16k(b *testing.B) {
	text := goText(b, 8<<20)
	trainer := NewTrainer()
	trainer.Add(text)
	tok, err := trainer.Train(context.Background(), 16384, func(int) {})
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "tokenizer.json")
	for b.Loop() {
		if err := tok.Save(path); err != nil {
			b.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil {
			b.Fatal(err)
		}
	}
}
