package nn

import "slices"

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
	DFF        int     `yaml:"d_ff" default:"640" range:"[8,65536]" doc:"hidden width of the gated MLP in every layer that is not a mixture"`
	Activation Act     `yaml:"activation" default:"relu2" doc:"activation of the MLP's gate"`
	Heads      int     `yaml:"heads" default:"2" range:"[1,64]" doc:"query heads of swa and value heads of lin"`
	HeadWidth  int     `yaml:"head_width" default:"32" range:"[4,256]" doc:"width of one head, even"`
	StateWidth int     `yaml:"state_width" default:"32" range:"[4,256]" doc:"key width of lin's state"`
	Window     int     `yaml:"window" default:"256" range:"[1,65536]" doc:"swa: how many positions back, itself included, a token sees"`
	RopeBase   float64 `yaml:"rope_base" default:"10000" range:"[2,1e9]" doc:"base of the rotary positions; 100 suits windows up to 256"`
	OVTie      float64 `yaml:"ov_tie" default:"0" range:"[0,64]" doc:"if not 0, o starts as ov_tie * v^T in every mixer: a copying circuit from step 0"`
	MoE        MoE     `yaml:"moe" doc:"layers whose MLP is a mixture of experts, routed once per block of tokens"`
}

// Statistic is what a block of tokens is routed by: a mean of normed hidden states
// of its segment's earlier tokens.
type Statistic string

const (
	WindowMean Statistic = "window" // of the previous block
	PrefixMean Statistic = "prefix" // of all earlier blocks
)

// Values lists what a spec may say.
func (Statistic) Values() []string { return []string{string(WindowMean), string(PrefixMean)} }

// MoE is the shape of the mixtures of experts. Without Layers the model is dense.
type MoE struct {
	Layers     []int     `yaml:"layers" range:"[0,255]" doc:"layers, from 0, whose MLP is a mixture of experts; none for a dense model"`
	Experts    int       `yaml:"experts" default:"16" range:"[1,4096]" doc:"experts of each mixture at the start; grow adds more"`
	TopK       int       `yaml:"top_k" default:"4" range:"[1,64]" doc:"experts that act on a block"`
	DFF        int       `yaml:"d_ff" default:"160" range:"[8,65536]" doc:"hidden width of one expert"`
	Shared     int       `yaml:"shared" default:"0" range:"[0,64]" doc:"experts that act on every token, with gate 1"`
	SharedDFF  int       `yaml:"shared_d_ff" default:"0" range:"[0,65536]" doc:"hidden width of one shared expert; 0: that of an expert"`
	RouteBlock int       `yaml:"route_block" default:"256" range:"[1,65536]" doc:"tokens that are routed together, counted from each document's start; a document's first block is routed by a learned vector"`
	Statistic  Statistic `yaml:"statistic" default:"window" doc:"what a block is routed by: the mean of the normed hidden states of the previous block, or of all earlier ones"`
	GateScale  float64   `yaml:"gate_scale" default:"0" range:"[0,1000]" doc:"sum of the gates of a block's experts; 0: top_k, so that equal experts add up as a dense MLP's columns do"`
	Balance    float64   `yaml:"balance" default:"0.01" range:"[0,1000]" doc:"coefficient of the balance loss"`
}

// Has reports whether layer i is a mixture of experts.
func (c MoE) Has(i int) bool { return slices.Contains(c.Layers, i) }

// SharedWidth is the hidden width of all shared experts together.
func (c MoE) SharedWidth() int {
	if c.SharedDFF > 0 {
		return c.Shared * c.SharedDFF
	}
	return c.Shared * c.DFF
}

// gateScale is the sum of a block's gates.
func (c MoE) gateScale() float64 {
	if c.GateScale > 0 {
		return c.GateScale
	}
	return float64(c.TopK)
}

// GrowthMethod is how a mixture gets more experts.
type GrowthMethod string

const (
	Split      GrowthMethod = "split"       // twins that stand in for their parent, which is still what is ranked
	SplitFlat  GrowthMethod = "split_flat"  // twins that all compete in top-k, as in the paper
	InsertZero GrowthMethod = "insert_zero" // new experts with a router row of zeros
)

// Values lists what a spec may say.
func (GrowthMethod) Values() []string {
	return []string{string(Split), string(SplitFlat), string(InsertZero)}
}

// Growth is one growth step of every mixture of experts.
type Growth struct {
	At      int64        `yaml:"at" required:"true" range:"[1,1e15]" doc:"tokens of training after which the mixtures grow"`
	Experts int          `yaml:"experts" required:"true" range:"[2,4096]" doc:"experts of each mixture from then on; for a split the number before times 2, 4, 8, ..."`
	Method  GrowthMethod `yaml:"method" default:"split" doc:"split keeps the model's function exactly; split_flat and insert_zero do not"`
	Jitter  float64      `yaml:"jitter" default:"0.01" range:"[0,10]" doc:"noise on the copied router rows, as a share of a row's rms"`
}

// LossConfig is the training loss.
type LossConfig struct {
	Kind      LossKind `yaml:"kind" default:"full" doc:"softmax over the whole vocabulary, or over a pool of negatives drawn each step"`
	Negatives int      `yaml:"negatives" default:"4096" range:"[1,1000000]" doc:"sampled: ids drawn per step, with replacement"`
	Power     float64  `yaml:"power" default:"0.75" range:"[0,2]" doc:"sampled: ids are drawn in proportion to max(count, floor)^power"`
	Floor     float64  `yaml:"floor" default:"1" range:"[1e-12,1e12]" doc:"sampled: smallest count the proposal assumes"`
}
