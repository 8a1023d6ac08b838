package probes

// Config says what is asked of a checkpoint and when.
type Config struct {
	N            int     `yaml:"n" default:"500" range:"[1,1e6]" doc:"prompts per task"`
	Every        float64 `yaml:"every" default:"0.25" range:"(0,1]" doc:"share of the budget between two probings during training"`
	Generations  int     `yaml:"generations" default:"4" range:"[0,1000]" doc:"validation documents continued by the model at every probing"`
	PromptTokens int     `yaml:"prompt_tokens" default:"24" range:"[1,4096]" doc:"tokens of each document given as prompt"`
	NewTokens    int     `yaml:"new_tokens" default:"48" range:"[1,4096]" doc:"tokens generated after each prompt"`
}
