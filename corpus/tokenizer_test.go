package corpus

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

// prose is enough text for a few hundred merges.
const prose = `The quick brown fox doesn't jump over the lazy dog; it's the dog that jumps over the fox.
func main() {
	for i := 0; i < 100; i++ {
		fmt.Println("fox", i, "dog", i+1) // the fox and the dog, 1234 times
	}
}
Don't you think we'll see that they've been there? The über-naïve café, 東京 and Zürich: ½ + ¼ = ¾.
`

// trained is a tokenizer of at most vocab ids on the given texts.
func trained(t testing.TB, vocab int, texts ...string) *Tokenizer {
	t.Helper()
	trainer := NewTrainer()
	for _, text := range texts {
		trainer.Add([]byte(text))
	}
	tok, err := trainer.Train(context.Background(), vocab, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestPiecesFollowGPT2Pattern(t *testing.T) {
	for text, want := range map[string][]string{
		"it's they'll":        {"it", "'s", " they", "'ll"},
		"a  b\n\n c":          {"a", " ", " b", "\n\n", " c"},
		"x 12+3 = 45abc":      {"x", " 12", "+", "3", " =", " 45", "abc"},
		"end  ":               {"end", "  "},
		"\t\tif x":            {"\t", "\t", "if", " x"},
		"é ½ 東京\u00a0\u00a0!": {"é", " ½", " 東京", "\u00a0", "\u00a0", "!"},
		"a\xff\xfe b":         {"a", "\xff\xfe", " b"},
		" '":                  {" '"},
		"I'd've'm're":         {"I", "'d", "'ve", "'m", "'re"},
		"'S 'd":               {"'", "S", " '", "d"},
		"":                    nil,
	} {
		var got []string
		for rest := []byte(text); len(rest) > 0; {
			n := nextPiece(rest)
			got = append(got, string(rest[:n]))
			rest = rest[n:]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: pieces %q, want %q", text, got, want)
		}
	}
}

func TestTrainerByHand(t *testing.T) {
	// Pieces: "abab" x3, "abc" x2, "bc" x2.
	// Pairs: ab 3*2+2 = 8, ba 3, bc 2+2 = 4. First: ab = 272.
	// Then: (ab)(ab) 3, (ab)c 2, bc 2. Second: abab = 273.
	// Then: (ab)c 2 and bc 2: the lower pair is b c, since b < 272. Third: bc = 274.
	// Last: (ab)c 2 = 275.
	tok := trained(t, 1000, "abab", "abab", "abab", "abc", "abc", "bc", "bc")
	var got []string
	for _, m := range tok.merges {
		got = append(got, string(tok.tokens[m.left])+"+"+string(tok.tokens[m.right]))
	}
	want := []string{"a+b", "ab+ab", "b+c", "ab+c"}
	if !slices.Equal(got, want) {
		t.Errorf("merges %q, want %q", got, want)
	}
	if tok.Vocab() != firstMerge+4 {
		t.Errorf("vocabulary %d: must end where no pair occurs twice, at %d", tok.Vocab(), firstMerge+4)
	}
	if got := tok.Encode([]byte("abababc"), nil); !slices.Equal(got, []int32{273, 275}) {
		t.Errorf("abababc = %v", got)
	}
}

func TestTrainerKeepsRunsExact(t *testing.T) {
	// aaaaa x2: pair aa counts 8; merged left to right it is (aa)(aa)a, so that
	// (aa)(aa) and (aa)a count 2 each, and the lower pair is (aa)a.
	tok := trained(t, 1000, "aaaaa", "aaaaa")
	var got []string
	for _, m := range tok.merges {
		got = append(got, string(tok.tokens[m.left])+"+"+string(tok.tokens[m.right]))
	}
	if want := []string{"a+a", "aa+a", "aa+aaa"}; !slices.Equal(got, want) {
		t.Errorf("merges %q, want %q", got, want)
	}
}

// slowMerges learns by recounting everything before every merge.
func slowMerges(texts []string, vocab int) [][2]string {
	var words [][]string
	for _, text := range texts {
		for rest := []byte(text); len(rest) > 0; {
			n := nextPiece(rest)
			words = append(words, strings.Split(string(bytes.ToValidUTF8(rest[:n], nil)), ""))
			rest = rest[n:]
		}
	}
	ids := map[string]int{}
	for b := range 256 {
		ids[string([]byte{byte(b)})] = b
	}
	var out [][2]string
	for len(ids) < vocab-specials {
		counts := map[[2]string]int{}
		for _, w := range words {
			for i := 0; i+1 < len(w); i++ {
				counts[[2]string{w[i], w[i+1]}]++
			}
		}
		var best [2]string
		for p, n := range counts {
			b := counts[best]
			if n > b || n == b && (ids[p[0]] < ids[best[0]] || ids[p[0]] == ids[best[0]] && ids[p[1]] < ids[best[1]]) {
				best = p
			}
		}
		if counts[best] < minPairCount {
			break
		}
		if !slices.Contains(out, best) {
			out = append(out, best)
		}
		if _, ok := ids[best[0]+best[1]]; !ok {
			ids[best[0]+best[1]] = len(ids)
		}
		for k, w := range words {
			var merged []string
			for i := 0; i < len(w); i++ {
				if i+1 < len(w) && w[i] == best[0] && w[i+1] == best[1] {
					merged = append(merged, w[i]+w[i+1])
					i++
				} else {
					merged = append(merged, w[i])
				}
			}
			words[k] = merged
		}
	}
	return out
}

func TestTrainerEqualsRecounting(t *testing.T) {
	// ASCII only: the slow trainer splits characters, which are bytes then.
	text := strings.Map(func(r rune) rune {
		if r > 126 {
			return -1
		}
		return r
	}, prose)
	text += strings.Repeat("aaaa aaaaaaa ababab bababa ", 3)
	r := newStream(1, "test", 0)
	for range 400 { // a dense language, where rules meet and reuse each other's strings
		text += " "
		for range 1 + r.below(9) {
			text += string("abc"[r.below(3)])
		}
	}
	tok := trained(t, 420, text)
	want := slowMerges([]string{text}, 420)
	if len(tok.merges) != len(want) {
		t.Fatalf("%d merges, want %d", len(tok.merges), len(want))
	}
	for i, m := range tok.merges {
		if got := [2]string{string(tok.tokens[m.left]), string(tok.tokens[m.right])}; got != want[i] {
			t.Fatalf("merge %d is %q, want %q", i, got, want[i])
		}
	}
}

func TestScanAndHeapMergeAlike(t *testing.T) {
	tok := trained(t, 500, prose, strings.Repeat("abcabcaabb", 9))
	r := newStream(2, "test", 0)
	for range 300 {
		piece := make([]byte, 1+r.below(200))
		for i := range piece {
			piece[i] = "abcthe fox"[r.below(10)]
		}
		ids := func() (out []int32) {
			for _, b := range piece {
				out = append(out, tok.byteID[b])
			}
			return out
		}
		scan, heap := tok.mergeByScan(ids(), nil), tok.mergeByHeap(ids(), nil)
		if !slices.Equal(scan, heap) {
			t.Fatalf("%q: scan %v, heap %v", piece, scan, heap)
		}
	}
}

func TestControlTokensNeverComeFromText(t *testing.T) {
	tok := trained(t, 600, strings.Repeat("<|bos|> <|mark|><|eot|> ", 50))
	text := []byte("a <|bos|><|pad|> <|mark|> <|reserved-7|>")
	ids := tok.Encode(text, nil)
	for _, id := range ids {
		if tok.IsSpecial(id) {
			t.Errorf("text became the control token %s", tok.Token(id))
		}
	}
	if got := tok.Decode(ids); !bytes.Equal(got, text) {
		t.Errorf("decoded %q", got)
	}
	if got := tok.Decode([]int32{BOS, ids[0], EOT, 1 << 20, -1}); string(got) != "a\uFFFD\uFFFD" {
		t.Errorf("special and unknown ids decode to %q", got)
	}
}

func TestTokenNamesEveryId(t *testing.T) {
	tok := trained(t, 290, prose)
	for id, want := range map[int32]string{
		PAD: "<|pad|>", BOS: "<|bos|>", EOT: "<|eot|>", MARK: "<|mark|>", 7: "<|reserved-7|>",
		specials + 'x': "x", specials + 0xff: "\xff", 5000: "<|unknown-5000|>", -3: "<|unknown--3|>",
	} {
		if got := tok.Token(id); got != want {
			t.Errorf("id %d is %q, want %q", id, got, want)
		}
	}
}

func TestEncodeAfterCacheIsFull(t *testing.T) {
	tok := trained(t, 400, prose)
	want := tok.Encode([]byte(prose), nil)
	for i := range cacheLimit {
		tok.cache[string([]byte{0, byte(i), byte(i >> 8), byte(i >> 16)})] = span{}
	}
	tok.cache[" fox"] = tok.cache[" fox"]
	for range 2 {
		if got := tok.Encode([]byte(prose+" unseen"), nil); !slices.Equal(got[:len(want)], want) {
			t.Fatal("encoding changed when the cache started anew")
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	tok := trained(f, 700, prose)
	for _, seed := range []string{prose, "", "\x00\xff\xfe", "<|bos|>", "a\u00a0\u3000 b", "\xe6\x9d", strings.Repeat("=", 300), " \n\t \r\n  x"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		ids := tok.Encode(text, nil)
		if got := tok.Decode(ids); !bytes.Equal(got, text) {
			t.Errorf("%q came back as %q", text, got)
		}
		for _, id := range ids {
			if id < specials || int(id) >= tok.Vocab() {
				t.Errorf("id %d", id)
			}
		}
	})
}

func TestTokenizerFileGolden(t *testing.T) {
	tok := trained(t, 290, prose)
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := tok.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "tokenizer.json")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("saved file differs from %s (-update rewrites it)", golden)
	}
	back, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if back.Hash() != tok.Hash() {
		t.Error("hash changed over save and load")
	}
	if got, want := back.Encode([]byte(prose), nil), tok.Encode([]byte(prose), nil); !slices.Equal(got, want) {
		t.Error("encoding changed over save and load")
	}
}

func TestLoadRefusesWhatItLacks(t *testing.T) {
	tok := trained(t, 280, prose)
	file, err := tok.marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, names string }{
		{`"normalizer": null`, `"normalizer": {"type": "NFC"}`, "normalizer"},
		{`"dropout": null`, `"dropout": 0.1`, "dropout"},
		{`"byte_fallback": false`, `"byte_fallback": true`, "byte_fallback"},
		{`"add_prefix_space": false`, `"add_prefix_space": true`, "add_prefix_space"},
		{`"type": "BPE"`, `"type": "WordPiece"`, "WordPiece"},
		{`"post_processor": null`, `"post_processor": {"type": "TemplateProcessing"}`, "post_processor"},
		{`"use_regex": true`, `"use_regex": false`, "use_regex"},
		{`"version": "1.0"`, `"version": "1.0", "novelty": 1`, "novelty"},
		{`"content": "<|bos|>"`, `"content": "<s>"`, "<s>"},
		{`"<|bos|>": 1`, `"<s>": 1`, "<s>"},
		{`"Ġ t"`, `"Ġ QQ"`, "QQ"},
		{`"!":`, `"日":`, "日"},
	} {
		changed := bytes.Replace(file, []byte(c.old), []byte(c.new), 1)
		if bytes.Equal(changed, file) {
			t.Fatalf("%s is not in the file", c.old)
		}
		if _, err := unmarshalTokenizer(changed); err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: error %v does not name %s", c.new, err, c.names)
		}
	}
	newer := bytes.Replace(file, []byte(`"Ġ t"`), []byte(`["Ġ", "t"]`), 1)
	if back, err := unmarshalTokenizer(newer); err != nil || back.Hash() != tok.Hash() {
		t.Errorf("pairs as arrays: %v", err)
	}
}
