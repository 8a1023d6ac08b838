package experiments

import (
	"context"
	"time"

	"harness/nn"
	"harness/runs"
)

// record writes the means since the last record.
func (a *attempt) record(learningRate float64) {
	step, tokens, w := a.t.step, a.t.tokens(), a.t.window
	var whole nn.Loss
	for i, name := range a.corpus.Mixture {
		l := w.loss(i)
		whole = whole.Add(l)
		if l.Count > 0 && len(a.corpus.Mixture) > 1 {
			a.rec.Metric(a.lossName()+"/"+name, step, tokens, l.Mean())
		}
	}
	if whole.Count > 0 {
		a.rec.Metric(a.lossName(), step, tokens, whole.Mean())
	}
	a.rec.Metric("gradient_norm", step, tokens, w.norm[0]/float64(w.steps[0]))
	a.rec.Metric("learning_rate", step, tokens, learningRate)
	a.recordRouters(step, tokens)
	w.clear()
	a.rec.Metric("throughput", step, tokens, a.speed(step-a.recorded.step, a.trained-a.recorded.trained))
	a.recorded.step, a.recorded.trained = step, a.trained
	a.out.TrainSpeed = a.speed(step-a.firstStep, a.trained)
}

// speed is tokens a second over steps that took d.
func (a *attempt) speed(steps int64, d time.Duration) float64 {
	return float64(steps*int64(a.spec.Train.StepTokens)) / d.Seconds()
}

// tell shows the observer a step that took stepTime.
func (a *attempt) tell(r stepResult, stepTime time.Duration) {
	if a.options.Observe == nil {
		return
	}
	perStep := a.trained.Seconds() / float64(a.t.step-a.firstStep)
	a.options.Observe(Update{Stage: StageTrain, Done: a.t.step, Total: a.t.total, Run: a.run.ID, Phase: a.phase + 1, Phases: max(1, len(a.spec.Corpus.Phases)), Mixed: len(a.spec.Corpus.Tasks) > 0, Tokens: a.t.tokens(), Loss: r.loss.Mean(),
		Validation: a.out.Validation, TokensPerSecond: a.speed(1, stepTime),
		Left: time.Duration(float64(a.t.total-a.t.step) * perStep * float64(time.Second))})
}

func (a *attempt) validate(ctx context.Context) error {
	whole, bySource, err := a.eval.validate(ctx)
	if err != nil {
		return err
	}
	a.out.Validation, a.out.BitsPerByte, a.out.ValidatedAt = whole.Mean(), a.eval.bitsPerByte(whole), a.t.step
	step, tokens := a.t.step, a.t.tokens()
	a.rec.Metric(validationLoss, step, tokens, whole.Mean())
	a.rec.Metric(bitsPerByte, step, tokens, a.out.BitsPerByte)
	a.rec.Metric("validation/unigram", step, tokens, a.eval.Unigram)
	if len(bySource) > 1 {
		for _, v := range a.eval.validation {
			a.rec.Metric(validationLoss+"/"+v.name, step, tokens, bySource[v.name].Mean())
		}
	}
	return nil
}

// ask fills the outcome's scores and generations.
func (a *attempt) ask(ctx context.Context) error {
	results, err := a.eval.probe(ctx)
	if err != nil {
		return err
	}
	generations, err := a.eval.generate(ctx)
	if err != nil {
		return err
	}
	a.out.Scores, a.out.Samples, a.out.Generations = results, a.sampleText(results), a.generationText(generations)
	for i := range a.out.Generations {
		g := &a.out.Generations[i]
		g.Step, g.Tokens, g.Index = a.t.step, a.t.tokens(), i
	}
	return nil
}

// probe asks and records, and measures the model's inside.
func (a *attempt) probe(ctx context.Context) error {
	if err := a.ask(ctx); err != nil {
		return err
	}
	step, tokens := a.t.step, a.t.tokens()
	for _, r := range a.out.Scores {
		a.rec.Metric("probe/"+r.Task, step, tokens, r.Accuracy())
		a.rec.Score(runs.Score{Step: step, Tokens: tokens, Name: r.Task, Value: r.Accuracy(), Low: r.Low, High: r.High,
			Chance: r.Chance, N: r.N, Seed: r.Seed, Unit: "accuracy"})
	}
	for _, g := range a.out.Generations {
		a.rec.Generation(g)
	}
	if len(a.out.Samples) > 0 {
		a.rec.Table(runs.Table{Step: step, Name: "probe samples", Columns: []string{"task", "prompt", "answer", "expected", "right"}, Rows: sampleRows(a.out.Samples)})
	}
	gains, branches := a.eval.inside()
	a.rec.Table(runs.Table{Step: step, Name: "norm gains", Columns: []string{"gain", "participation", "of", "rms"}, Rows: participationRows(gains)})
	a.rec.Table(runs.Table{Step: step, Name: "branches", Columns: []string{"branch", "share of the stream"}, Rows: branchRows(branches)})
	for _, b := range branches {
		a.rec.Metric(branchShare+b.Name, step, tokens, b.Share)
	}
	a.routerTables(step)
	if step == a.t.total {
		return a.ablate(ctx)
	}
	return nil
}
