package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/google/pprof/profile"
)

const (
	samplesPerStack = 5
	endpoints       = 50
	sharedWays      = 100
	codeBegin       = 0x400000
)

type encodeSize struct {
	stacks, depth, functions, files int
}

// encodeWorkload is the program's own data, made before anything is measured.
type encodeWorkload struct {
	encodeSize
	names, fileNames   []string
	frames             [][]uint32
	threads, endpoints []string
}

func newEncodeWorkload(size encodeSize) *encodeWorkload {
	w := &encodeWorkload{encodeSize: size}
	for f := range size.functions {
		w.names = append(w.names, fmt.Sprintf("crate::module%d::function_%d", f%size.files, f))
		w.fileNames = append(w.fileNames, fmt.Sprintf("src/module%d.rs", f%size.files))
	}
	for s := range size.stacks {
		// The inner fifth is the stack's own, the rest that of many.
		own, shared := uint64(s)+1, uint64(size.stacks+s%sharedWays)+1
		stack := make([]uint32, size.depth)
		for d := range stack {
			state := &shared
			if d < size.depth/5 {
				state = &own
			}
			*state = *state*6364136223846793005 + 1442695040888963407
			stack[d] = uint32((*state >> 33) % uint64(size.functions))
		}
		w.frames = append(w.frames, stack)
	}
	for k := range samplesPerStack {
		w.threads = append(w.threads, fmt.Sprintf("worker-%d", k))
	}
	for e := range endpoints {
		w.endpoints = append(w.endpoints, fmt.Sprintf("/endpoint/%d", e))
	}
	return w
}

// build makes the profile as a program would that keeps its own stacks: one location and one function
// each, found by number, which is the cheapest way.
func (w *encodeWorkload) build() *profile.Profile {
	mapping := &profile.Mapping{
		ID: 1, Start: codeBegin, Limit: codeBegin + 64*uint64(w.functions),
		File: "/usr/bin/program", BuildID: "0123456789abcdef", HasFunctions: true,
	}
	p := &profile.Profile{
		SampleType:    []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "wall", Unit: "nanoseconds"}},
		PeriodType:    &profile.ValueType{Type: "wall", Unit: "nanoseconds"},
		Period:        10_000_000,
		TimeNanos:     1,
		DurationNanos: 1,
		Mapping:       []*profile.Mapping{mapping},
	}
	for f, name := range w.names {
		function := &profile.Function{ID: uint64(f) + 1, Name: name, SystemName: name, Filename: w.fileNames[f]}
		p.Function = append(p.Function, function)
		p.Location = append(p.Location, &profile.Location{
			ID: uint64(f) + 1, Mapping: mapping, Address: codeBegin + 64*uint64(f) + 16,
			Line: []profile.Line{{Function: function, Line: int64(f%500) + 1}},
		})
	}
	for k := range samplesPerStack {
		for s, frames := range w.frames {
			locations := make([]*profile.Location, len(frames))
			for d, f := range frames {
				locations[d] = p.Location[f]
			}
			p.Sample = append(p.Sample, &profile.Sample{
				Location: locations,
				Value:    []int64{1 + int64(k), 1000*(int64(s)+1) + int64(k)},
				Label:    map[string][]string{"thread": {w.threads[k]}, "endpoint": {w.endpoints[(s+k)%endpoints]}},
			})
		}
	}
	return p
}

func measured(work func() error) (seconds time.Duration, objects uint64, err error) {
	_, before := allocated()
	started := processorTime()
	err = work()
	seconds = processorTime() - started
	_, after := allocated()
	return seconds, after - before, err
}

func runEncode(name string, arguments []string) error {
	flags := flag.NewFlagSet("encode", flag.ContinueOnError)
	var size encodeSize
	flags.IntVar(&size.stacks, "stacks", 4000, "")
	flags.IntVar(&size.depth, "depth", 500, "")
	flags.IntVar(&size.functions, "functions", 10000, "")
	flags.IntVar(&size.files, "files", 1000, "")
	rounds := flags.Int("rounds", 5, "")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	w := newEncodeWorkload(size)
	var builds, writes, cycles []time.Duration
	var buildObjects, writeObjects []uint64
	for range *rounds + 1 {
		var p *profile.Profile
		build, built, err := measured(func() error {
			p = w.build()
			return nil
		})
		if err != nil {
			return err
		}
		// The first time, and again, which is what is told.
		if err := p.WriteUncompressed(io.Discard); err != nil {
			return err
		}
		write, written, err := measured(func() error { return p.WriteUncompressed(io.Discard) })
		if err != nil {
			return err
		}
		builds, writes, cycles = append(builds, build), append(writes, write), append(cycles, build+write)
		buildObjects, writeObjects = append(buildObjects, built), append(writeObjects, written)
	}
	samples := float64(size.stacks * samplesPerStack)
	milliseconds := func(of []time.Duration) float64 { return median(of[1:]).Seconds() * 1e3 }
	var fields []string
	// It keeps nothing: every cycle is a cold one.
	for _, kind := range []string{"cold", "again"} {
		fields = append(fields,
			number(kind+"_record_ns", milliseconds(builds)*1e6/samples),
			number(kind+"_encode_ms", milliseconds(writes)),
			number(kind+"_ms", milliseconds(cycles)),
			count(kind+"_record_calls", median(buildObjects[1:])),
			count(kind+"_encode_calls", median(writeObjects[1:])))
	}
	report("go_pprof", "encode", name, fields...)
	return nil
}

// runReadProfile reads a profile that somebody else wrote and tells what it says, in any order of samples.
func runReadProfile(name string, arguments []string) error {
	flags := flag.NewFlagSet("read-profile", flag.ContinueOnError)
	file := flags.String("file", "", "")
	values := flags.Int("values", 2, "")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	data, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	p, err := profile.ParseData(data)
	if err != nil {
		return fmt.Errorf("%s: %w", *file, err)
	}
	if err := p.CheckValid(); err != nil {
		return fmt.Errorf("%s: %w", *file, err)
	}
	var sum uint64
	totals := make([]int64, *values)
	for _, sample := range p.Sample {
		sum += hashSample(sample, *values)
		for i := range totals {
			totals[i] += sample.Value[i]
		}
	}
	report("go_pprof", "read-profile", name,
		count("samples", len(p.Sample)), fmt.Sprintf("hash=%016x", sum),
		fmt.Sprintf("totals=%s", joined(totals)))
	return nil
}

func joined(values []int64) string {
	text := ""
	for i, value := range values {
		if i > 0 {
			text += ","
		}
		text += strconv.FormatInt(value, 10)
	}
	return text
}

// hashSample is the FNV-1a of its functions' names, labels and values, a line each.
func hashSample(sample *profile.Sample, values int) uint64 {
	hash := uint64(0xcbf29ce484222325)
	take := func(text string) {
		for i := range len(text) {
			hash = (hash ^ uint64(text[i])) * 0x100000001b3
		}
		hash = (hash ^ '\n') * 0x100000001b3
	}
	for _, location := range sample.Location {
		for _, line := range location.Line {
			take(line.Function.Name)
		}
		if len(location.Line) == 0 {
			take("")
		}
	}
	var labels []string
	for key, texts := range sample.Label {
		for _, text := range texts {
			labels = append(labels, key+"="+text)
		}
	}
	for key, numbers := range sample.NumLabel {
		for _, value := range numbers {
			labels = append(labels, fmt.Sprintf("%s=%d", key, value))
		}
	}
	slices.Sort(labels)
	for _, label := range labels {
		take(label)
	}
	for _, value := range sample.Value[:values] {
		take(strconv.FormatInt(value, 10))
	}
	return hash
}
