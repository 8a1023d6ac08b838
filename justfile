# One-line names for the commands of the README; nothing needs `just`.

quickstart:
    go run . run experiments/quickstart.yaml

test:
    go test ./...

build:
    go build -o harness .

ci:
    bash .ci/run
