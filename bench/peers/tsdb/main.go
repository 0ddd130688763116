// Command peer-tsdb writes the workload "restart" of ../WORKLOADS.md with Prometheus' own store, as its
// scrape loops do, until it is killed. After each commit it prints the samples so far: COMMITTED n.
//
// Options, each --set key=value: targets, series, scrapes, start (milliseconds), workers, data (a directory).
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/compression"
)

const (
	intervalMs = 10_000
	metrics    = 100
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peer-tsdb:", err)
		os.Exit(1)
	}
}

type workload struct {
	targets, series int
	start           int64
}

func run(arguments []string) error {
	settings := map[string]string{}
	for i := 0; i+1 < len(arguments); i += 2 {
		key, value, ok := strings.Cut(arguments[i+1], "=")
		if arguments[i] != "--set" || !ok {
			return fmt.Errorf("%s %s: only --set key=value", arguments[i], arguments[i+1])
		}
		settings[key] = value
	}
	numbers := map[string]int64{}
	for _, key := range []string{"targets", "series", "start", "workers"} {
		number, err := strconv.ParseInt(settings[key], 10, 64)
		if err != nil {
			return fmt.Errorf("--set %s: %w", key, err)
		}
		numbers[key] = number
	}
	// As the server sets it where no flag says otherwise.
	options := tsdb.DefaultOptions()
	options.WALCompression = compression.Snappy
	db, err := tsdb.Open(settings["data"], slog.New(slog.DiscardHandler), nil, options, tsdb.NewDBStats())
	if err != nil {
		return err
	}
	return fill(db, workload{int(numbers["targets"]), int(numbers["series"]), numbers["start"]}, int(numbers["workers"]))
}

// fill scrapes round by round, each worker its targets; nobody is a round ahead.
func fill(db *tsdb.DB, w workload, workers int) error {
	var committed atomic.Uint64
	refs := make([][]storage.SeriesRef, w.targets)
	sets := make([][]labels.Labels, w.targets)
	for t := range refs {
		refs[t] = make([]storage.SeriesRef, w.series)
		sets[t] = make([]labels.Labels, w.series)
		for s := range sets[t] {
			sets[t][s] = seriesLabels(t, s)
		}
	}
	for k := 0; ; k++ {
		errors := make([]error, workers)
		var round sync.WaitGroup
		for worker := range workers {
			round.Go(func() {
				for t := worker; t < w.targets; t += workers {
					if err := scrape(db, w, t, k, sets[t], refs[t]); err != nil {
						errors[worker] = err
						return
					}
					fmt.Println("COMMITTED", committed.Add(uint64(w.series)))
				}
			})
		}
		round.Wait()
		for _, err := range errors {
			if err != nil {
				return err
			}
		}
	}
}

func scrape(db *tsdb.DB, w workload, t, k int, sets []labels.Labels, refs []storage.SeriesRef) error {
	appender := db.Appender(context.Background())
	time := w.start + int64(k)*intervalMs + int64(t)*intervalMs/int64(w.targets)
	for s, ref := range refs {
		known, err := appender.Append(ref, sets[s], time, value(t, s, k))
		if err != nil {
			return err
		}
		refs[s] = known
	}
	return appender.Commit()
}

func step(state uint64) uint64 {
	return state*6364136223846793005 + 1442695040888963407
}

func value(t, s, k int) float64 {
	own := step(uint64(t)<<32|uint64(s)) >> 33
	drawn := step(own^uint64(k)<<40) >> 33
	switch s / metrics % 4 {
	case 0, 1:
		return float64(own % 1000)
	case 2:
		return float64(own%1_000_000 + uint64(k)*(10+own%50) + drawn%10)
	}
	return float64(drawn%10_000) / 100
}

func seriesLabels(t, s int) labels.Labels {
	return labels.FromStrings(
		"__name__", fmt.Sprintf("kube_workload_metric_%03d_total", s%metrics),
		"cluster", "production-eu-1",
		"container", fmt.Sprintf("container-%d", s/metrics),
		"endpoint", "metrics",
		"instance", fmt.Sprintf("10.%d.%d.1:8080", t/250, t%250),
		"job", "kubernetes-pods",
		"namespace", fmt.Sprintf("team-%d", t%20),
		"node", fmt.Sprintf("node-%03d.eu-1.internal", t%50),
		"pod", fmt.Sprintf("workload-%d-7c9f6d5b8-%05d", t/5, t),
		"service", fmt.Sprintf("workload-%d", t/5),
	)
}
