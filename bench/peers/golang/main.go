// Command peer-go runs the workloads of ../WORKLOADS.md with Go's client_golang and OpenTelemetry's Go
// SDK, and prints one line per measured case: PEER <library> workload=… case=… key=value …
//
// A run of several cases starts this program again for each, so that no case sees the heap, the pools or
// the resident memory that another one left behind.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

type workload struct {
	cases []string
	run   func(name string, arguments []string) error
}

var workloads = map[string]workload{
	"broker":   {[]string{"registry", "table"}, runBroker},
	"sdk":      {sdkCases, runSDK},
	"sdk-peak": {sdkCases, runSDKPeak},
	"record":   {[]string{"otel_go", "client_golang"}, runRecord},
	"encode":   {[]string{"profile"}, runEncode},
	// Reads what others wrote.
	"read-profile": {[]string{"profile"}, runReadProfile},
}

const usage = `usage: peer-go <workload> [--case NAME|all] [options]
  broker    [--queues 100000] [--scrapes 3] [--out FILE]        cases: registry, table
  sdk       [--instruments 10] [--sets 1000] [--ops 5]          cases: reusable-cumulative, reusable-delta,
  sdk-peak  [--instruments 50] [--sets 100000]                         immutable-cumulative, immutable-delta
  record    [--operations 1000000] [--rounds 11]                cases: otel_go, client_golang
  encode    [--stacks 4000] [--depth 500] [--functions 10000] [--files 1000] [--rounds 5]
  read-profile --file FILE [--values 2]                         what a profile says`

func main() {
	if err := start(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peer-go:", err)
		os.Exit(1)
	}
}

func start(arguments []string) error {
	if len(arguments) == 0 {
		return fmt.Errorf("no workload named\n%s", usage)
	}
	chosen, ok := workloads[arguments[0]]
	if !ok {
		return fmt.Errorf("unknown workload %q\n%s", arguments[0], usage)
	}
	name, rest := takeCase(arguments[1:])
	if name != "all" {
		for _, known := range chosen.cases {
			if name == known {
				return chosen.run(name, rest)
			}
		}
		return fmt.Errorf("workload %s has no case %q, only %s", arguments[0], name, strings.Join(chosen.cases, ", "))
	}
	for _, known := range chosen.cases {
		child := exec.Command("/proc/self/exe", append([]string{arguments[0], "--case", known}, rest...)...)
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Run(); err != nil {
			return fmt.Errorf("case %s: %w", known, err)
		}
	}
	return nil
}

// takeCase removes "--case NAME" from the arguments; without it, all cases are meant.
func takeCase(arguments []string) (string, []string) {
	for i, argument := range arguments {
		if name, ok := strings.CutPrefix(argument, "--case="); ok {
			return name, append(arguments[:i:i], arguments[i+1:]...)
		}
		if argument == "--case" && i+1 < len(arguments) {
			return arguments[i+1], append(arguments[:i:i], arguments[i+2:]...)
		}
	}
	return "all", arguments
}

// report prints one result; the fields are "key=value" already.
func report(library, workload, name string, fields ...string) {
	fmt.Printf("PEER %s workload=%s case=%s %s\n", library, workload, name, strings.Join(fields, " "))
}

func count[T int | int64 | uint64](key string, value T) string {
	return fmt.Sprintf("%s=%d", key, value)
}

func number(key string, value float64) string {
	return fmt.Sprintf("%s=%.4g", key, value)
}
