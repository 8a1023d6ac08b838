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
	// A reader that goes away (harness run ... | head) must not end a run: what is
	// printed then fails with an error instead.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(execute(untilStopped(context.Background()), os.Args, os.Stdout, os.Stderr))
}

// untilStopped ends with the first signal that asks the program to stop; a second
// one kills it at once. SIGHUP asks too, unless whoever started the program made it
// ignore that, as nohup does. It never counts as the second: a terminal that closes
// sends it more than once.
func untilStopped(ctx context.Context) context.Context {
	asks := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		asks = append(asks, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(ctx, asks...)
	context.AfterFunc(ctx, func() {
		signal.Ignore(syscall.SIGHUP)
		stop()
	})
	return ctx
}
