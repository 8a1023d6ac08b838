// Command harness trains tiny language models on one CPU core and keeps track of
// what they did. This package parses command lines, wires packages together and
// prints; experiments, runs and reports do the work.
//
// Results go to standard output, progress and errors to standard error.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // from then on a second signal kills at once
	os.Exit(execute(ctx, os.Args, os.Stdout, os.Stderr))
}
