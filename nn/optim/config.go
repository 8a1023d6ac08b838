package optim

// Config is AdamW with warm-up, cosine schedule and a global clip.
type Config struct {
	LR          float64 `yaml:"lr" default:"3e-4" range:"(0,1]" doc:"peak learning rate"`
	MinRatio    float64 `yaml:"min_ratio" default:"0.1" range:"[0,1]" doc:"final learning rate as a share of the peak"`
	WarmupSteps int     `yaml:"warmup_steps" default:"25" range:"[0,1e9]" doc:"steps of linear warm-up before the cosine"`
	Beta1       float64 `yaml:"beta1" default:"0.9" range:"[0,1)" doc:"decay of the first moment"`
	Beta2       float64 `yaml:"beta2" default:"0.95" range:"[0,1)" doc:"decay of the second moment"`
	Eps         float64 `yaml:"eps" default:"1e-8" range:"(0,1]" doc:"added to the root of the second moment"`
	WeightDecay float64 `yaml:"weight_decay" default:"0.1" range:"[0,100]" doc:"decoupled weight decay of matrices and embedding rows"`
	NormDecay   float64 `yaml:"norm_decay" default:"0" range:"[0,100]" doc:"decoupled weight decay of the norm gains"`
	ClipNorm    float64 `yaml:"clip_norm" default:"1" range:"[0,1e9]" doc:"largest global gradient norm; 0 never clips"`
}
