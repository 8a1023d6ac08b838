package nn

// Mixer is the kind of a layer's token mixer.
type Mixer string

const (
	SWA Mixer = "swa" // sliding-window attention
	Lin Mixer = "lin" // linear attention with learned log-decay
)

// Values lists what a spec may say.
func (Mixer) Values() []string { return []string{string(SWA), string(Lin)} }

// Act is the activation of the gated MLP.
type Act string

const (
	ReLU2 Act = "relu2" // relu(x)^2
	SiLU  Act = "silu"
)

// Values lists what a spec may say.
func (Act) Values() []string { return []string{string(ReLU2), string(SiLU)} }

// LossKind says how training logits are normalised; validation is always the exact full softmax.
type LossKind string

const (
	FullSoftmax    LossKind = "full"
	SampledSoftmax LossKind = "sampled"
)

// Values lists what a spec may say.
func (LossKind) Values() []string { return []string{string(FullSoftmax), string(SampledSoftmax)} }

// Config is the shape of a model. The vocabulary comes from the tokenizer.
type Config struct {
	DModel     int     `yaml:"d_model" default:"256" range:"[8,4096]" doc:"width of the residual stream"`
	Layers     []Mixer `yaml:"layers" default:"[lin, swa, swa, lin, swa, lin]" doc:"token mixer of each layer, first to last"`
	DFF        int     `yaml:"d_ff" default:"640" range:"[8,65536]" doc:"hidden width of the gated MLP in every layer"`
	Activation Act     `yaml:"activation" default:"relu2" doc:"activation of the MLP's gate"`
	Heads      int     `yaml:"heads" default:"2" range:"[1,64]" doc:"query heads of swa and value heads of lin"`
	HeadWidth  int     `yaml:"head_width" default:"32" range:"[4,256]" doc:"width of one head, even"`
	StateWidth int     `yaml:"state_width" default:"32" range:"[4,256]" doc:"key width of lin's state"`
	Window     int     `yaml:"window" default:"256" range:"[1,65536]" doc:"swa: how many positions back, itself included, a token sees"`
	RopeBase   float64 `yaml:"rope_base" default:"10000" range:"[2,1e9]" doc:"base of the rotary positions; 100 suits windows up to 256"`
	OVTie      float64 `yaml:"ov_tie" default:"0" range:"[0,64]" doc:"if not 0, o starts as ov_tie * v^T in every mixer: a copying circuit from step 0"`
}

// LossConfig is the training loss.
type LossConfig struct {
	Kind      LossKind `yaml:"kind" default:"full" doc:"softmax over the whole vocabulary, or over a pool of negatives drawn each step"`
	Negatives int      `yaml:"negatives" default:"4096" range:"[1,1000000]" doc:"sampled: ids drawn per step, with replacement"`
	Power     float64  `yaml:"power" default:"0.75" range:"[0,2]" doc:"sampled: ids are drawn in proportion to max(count, floor)^power"`
	Floor     float64  `yaml:"floor" default:"1" range:"[1e-12,1e12]" doc:"sampled: smallest count the proposal assumes"`
}
