// Command peer-head appends the workload `head` of ../WORKLOADS.md to Prometheus' own tsdb, as its scrape
// loop does: by reference, a target at a time, with a write-ahead log. It prints one line:
// PEER prometheus workload=head key=value …
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/compression"
)

const (
	perTarget = 1000
	start     = 1_700_000_000_000
	interval  = 10_000
)

func labelSet(series int) labels.Labels {
	target, own := series/perTarget, series%perTarget
	return labels.FromStrings(
		"__name__", fmt.Sprintf("container_network_receive_total_%d", own/10),
		"cluster", "europe-west-1",
		"container", "application",
		"instance", fmt.Sprintf("10.%d.%d.7:8080", target/250, target%250),
		"interface", fmt.Sprintf("eth%d", own%10),
		"job", "kubernetes-pods",
		"namespace", fmt.Sprintf("team-%d", target%20),
		"node", fmt.Sprintf("node-%03d.internal", target/10),
		"pod", fmt.Sprintf("checkout-api-7d9f8b6c5d-%05d", target),
		"service", "checkout-api",
	)
}

type random uint64

func (r *random) next() uint64 {
	*r = *r*6364136223846793005 + 1442695040888963407
	return uint64(*r >> 33)
}

func (r *random) step(series int, value float64) float64 {
	switch kind := series % 20; {
	case kind < 10:
		return value
	case kind < 16:
		return value + float64(r.next()%500)
	case kind < 18:
		return (float64(int64(value*100+0.5)) + float64(r.next()%1000)) / 100
	case kind == 18:
		return float64(r.next() % (1 << 20))
	default:
		return float64(r.next()) / (1 << 31)
	}
}

func main() {
	count := flag.Int("series", 200_000, "series, a multiple of 1000")
	scrapes := flag.Int("scrapes", 130, "samples of each")
	directory := flag.String("directory", "", "where the data go; removed afterwards")
	flag.Parse()
	if err := run(*count, *scrapes, *directory); err != nil {
		fmt.Fprintln(os.Stderr, "peer-head:", err)
		os.Exit(1)
	}
}

func run(count, scrapes int, directory string) error {
	directory, err := os.MkdirTemp(directory, "peer-head-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	// As Prometheus sets it where the environment doesn't.
	debug.SetGCPercent(75)
	refs := make([]storage.SeriesRef, count)
	values := make([]float64, count)
	rounds := make([]float64, 0, scrapes)
	for i := range values {
		values[i], refs[i] = float64(i*1000), 1
	}
	clear(refs)
	before, err := resident()
	if err != nil {
		return err
	}
	options := tsdb.DefaultOptions()
	options.WALCompression = compression.Snappy
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	db, err := tsdb.Open(directory, logger, nil, options, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	begun := processorTime()
	var createNs float64
	chance := random(1)
	for scrape := range scrapes {
		for i := range values {
			values[i] = chance.step(i, values[i])
		}
		at := processorTime()
		for first := 0; first < count; first += perTarget {
			appender := db.Appender(context.Background())
			for i := first; i < min(first+perTarget, count); i++ {
				set := labels.EmptyLabels()
				if refs[i] == 0 {
					set = labelSet(i)
				}
				refs[i], err = appender.Append(refs[i], set, start+interval*int64(scrape), values[i])
				if err != nil {
					return err
				}
			}
			if err := appender.Commit(); err != nil {
				return err
			}
		}
		spent := float64(processorTime()-at) / float64(count)
		if scrape == 0 {
			createNs = spent
		} else {
			rounds = append(rounds, spent)
		}
	}
	total := processorTime() - begun
	held, err := resident()
	if err != nil {
		return err
	}
	wal, err := walBytes(directory)
	if err != nil {
		return err
	}
	runtime.GC()
	debug.FreeOSMemory()
	live, err := resident()
	if err != nil {
		return err
	}
	slices.Sort(rounds)
	runtime.KeepAlive(refs)
	samples := float64(count) * float64(scrapes)
	fmt.Printf("PEER prometheus workload=head series=%d scrapes=%d bytes_per_series=%.1f live_bytes_per_series=%.1f "+
		"append_ns=%.1f create_ns=%.0f cpu_ns=%.1f journal_bytes_per_sample=%.3f\n",
		count, scrapes, (held-before)/float64(count), (live-before)/float64(count),
		rounds[len(rounds)/2], createNs, float64(total)/samples, wal/samples)
	return nil
}

// processorTime is the time of all threads, so that the garbage collector's is in it.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func resident() (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no VmRSS")
}

func walBytes(directory string) (float64, error) {
	entries, err := os.ReadDir(directory + "/wal")
	if err != nil {
		return 0, err
	}
	var total int64
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			return 0, err
		}
		if !info.IsDir() {
			total += info.Size()
		}
	}
	return float64(total), nil
}
