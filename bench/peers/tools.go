//go:build tools

// Package peers names the programs that the comparisons run beside unladen, so that their versions
// are pinned in go.mod.
package peers

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
