package main

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"harness/experiments"
	"harness/nn/generate"
	"harness/runs"
)

func (c *cli) generateCommand() *cobra.Command {
	var policy generate.Policy
	var prompt, kernels string
	var tokens int
	var seed int64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "generate RUN --prompt TEXT",
		Short: "Let a trained model continue a text",
		Long: `Let the newest checkpoint of a run continue a text, which begins a document. The
choice of tokens is greedy unless --temperature says otherwise. The continuation
is printed without the prompt; terminal controls in it are made visible.`,
		Example: `  harness generate latest --prompt "func main() {"
  harness generate quickstart --prompt "// " --temperature 0.8 --top-p 0.95 --seed 7`,
		Args:              arguments(1, 1),
		ValidArgsFunction: c.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkGenerate(cmd, tokens, policy); err != nil {
				return err
			}
			if kernels != "" {
				if err := checkKernels(kernels); err != nil {
					return err
				}
			}
			t, err := experiments.LoadTrained(cmd.Context(), c.store, args[0], kernels)
			if err != nil {
				return c.withoutCheckpoint(cmd.Context(), args[0], err)
			}
			for _, damage := range t.Skipped {
				fmt.Fprintln(cmd.ErrOrStderr(), visible(fmt.Sprintf("harness: warning: skipped a damaged checkpoint: %v", damage)))
			}
			text, err := t.Continue(cmd.Context(), prompt, tokens, policy, seed)
			if err != nil {
				return fmt.Errorf("generate: %w", err)
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), generatedJSON{Run: t.Run.ID, Checkpoint: t.Checkpoint, Step: t.Step, Kernels: t.Kernels,
					Prompt: prompt, Text: text, MaxTokens: tokens, Temperature: policy.Temperature, TopK: policy.TopK, TopP: policy.TopP,
					MinP: policy.MinP, NoRepeat: policy.NoRepeat, Seed: seed})
			}
			fmt.Fprintln(cmd.ErrOrStderr(), visible(fmt.Sprintf("%s (%s) after step %s, kernels %s", t.Run.Name, t.Run.ID, count(t.Step), t.Kernels)))
			fmt.Fprintln(cmd.OutOrStdout(), visibleLines(text))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&prompt, "prompt", "", "text to continue (required; may be empty)")
	f.IntVar(&tokens, "tokens", 64, "how many tokens at most")
	f.Float64Var(&policy.Temperature, "temperature", 0, "0 is greedy; 1 samples from the model's own distribution")
	f.IntVar(&policy.TopK, "top-k", 0, "sample among the k likeliest tokens; 0 among all")
	f.Float64Var(&policy.TopP, "top-p", 0, "sample among the likeliest tokens that together reach this probability; 0 among all")
	f.Float64Var(&policy.MinP, "min-p", 0, "drop tokens with less than this share of the likeliest one's probability; 0 drops none")
	f.IntVar(&policy.NoRepeat, "no-repeat", 0, "never write the same n tokens in a row twice; 0 allows it")
	f.Int64Var(&seed, "seed", 1, "seed of the sampling")
	f.StringVar(&kernels, "kernels", "", "kernel set, instead of the one the run was trained with")
	f.BoolVar(&asJSON, "json", false, "print prompt, text and how it was chosen as JSON")
	return cmd
}

// withoutCheckpoint says of a run that has never written a checkpoint just that; of
// another, why its model could not be loaded.
func (c *cli) withoutCheckpoint(ctx context.Context, ref string, loading error) error {
	store, err := runs.OpenReadOnly(c.store)
	if err != nil {
		return loading
	}
	defer store.Close() // opened for reading: there is nothing to lose
	run, err := store.Find(ctx, ref)
	if err != nil {
		return loading
	}
	artifacts, err := store.Artifacts(ctx, run.ID)
	if err != nil || len(artifacts) > 0 {
		return loading
	}
	return fmt.Errorf("run %s (%s) has no checkpoint yet", run.Name, run.ID)
}

type generatedJSON struct {
	Run         string  `json:"run"`
	Checkpoint  string  `json:"checkpoint"`
	Step        int64   `json:"step"`
	Kernels     string  `json:"kernels"`
	Prompt      string  `json:"prompt"`
	Text        string  `json:"text"`
	MaxTokens   int     `json:"max_tokens"`
	Temperature float64 `json:"temperature"` // 0 is greedy
	TopK        int     `json:"top_k"`       // 0 is off, as for the others
	TopP        float64 `json:"top_p"`
	MinP        float64 `json:"min_p"`
	NoRepeat    int     `json:"no_repeat"`
	Seed        int64   `json:"seed"`
}

// checkGenerate refuses flags outside their range, and those that would do nothing.
func checkGenerate(cmd *cobra.Command, tokens int, p generate.Policy) error {
	outside := func(v, high float64) bool { return math.IsNaN(v) || v < 0 || v > high }
	switch {
	case !cmd.Flags().Changed("prompt"):
		return usageError("no --prompt given; usage: %s", cmd.UseLine())
	case tokens < 1:
		return usageError("--tokens %d: want at least 1", tokens)
	case outside(p.Temperature, 1000):
		return usageError("--temperature %g: want 0 to 1000", p.Temperature)
	case p.TopK < 0:
		return usageError("--top-k %d: want 0 or more", p.TopK)
	case outside(p.TopP, 1):
		return usageError("--top-p %g: want 0 to 1", p.TopP)
	case outside(p.MinP, 1):
		return usageError("--min-p %g: want 0 to 1", p.MinP)
	case p.NoRepeat < 0:
		return usageError("--no-repeat %d: want 0 or more", p.NoRepeat)
	}
	for _, name := range []string{"top-k", "top-p", "min-p"} {
		if cmd.Flags().Changed(name) && p.Temperature == 0 {
			return usageError("--%s does nothing without --temperature: the choice is greedy", name)
		}
	}
	return nil
}
