package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// allocated tells the bytes and the objects allocated since the process started. It stops the world, so it
// stays outside of what is timed.
func allocated() (bytes, objects uint64) {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc, stats.Mallocs
}

// retained tells the bytes of live objects. The second collection frees what finalizers and pools held
// through the first.
func retained() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// processorTime is the time of all threads, so that the garbage collector's is in it.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// residentBytes gives garbage back to the system first: what stays is what the program keeps.
func residentBytes() (uint64, error) {
	debug.FreeOSMemory()
	return statusBytes("VmRSS:")
}

func forgetPeak() error {
	return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

func peakBytes() (uint64, error) {
	return statusBytes("VmHWM:")
}

func statusBytes(field string) (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if words := bytes.Fields(line); len(words) >= 2 && string(words[0]) == field {
			kibibytes, err := strconv.ParseUint(string(words[1]), 10, 64)
			return kibibytes * 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no %s", field)
}

func median[T int64 | uint64 | float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
