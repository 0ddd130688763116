package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// text is a string whose bytes survive JSON even where they are not UTF-8.
type text string

func (t text) MarshalJSON() ([]byte, error) {
	if !utf8.ValidString(string(t)) {
		return fmt.Appendf(nil, `{"hex":"%s"}`, hex.EncodeToString([]byte(t))), nil
	}
	return marshal(string(t))
}

// marshal is json.Marshal without the escapes for web pages.
func marshal(value any) ([]byte, error) {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(encoded.Bytes(), []byte("\n")), err
}

type bits float64

func (b bits) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `"%016x"`, math.Float64bits(float64(b))), nil
}

func allBits(values []float64) []bits {
	converted := make([]bits, len(values))
	for i, value := range values {
		converted[i] = bits(value)
	}
	return converted
}

type label [2]text

// sortedLabels keeps two labels of one name in their order, so that a reader's duplicates stay visible.
func sortedLabels(labels []label) []label {
	if labels == nil {
		return []label{}
	}
	slices.SortStableFunc(labels, func(a, b label) int { return strings.Compare(string(a[0]), string(b[0])) })
	return labels
}

type head struct {
	Reader string `json:"reader"`
	Event  string `json:"event"`
}

// familyLine is what a reader knows of a family before its samples.
type familyLine struct {
	head
	Name text  `json:"name"`
	Type *text `json:"type"`
	Help *text `json:"help"`
	Unit *text `json:"unit"`
}

type exemplarValue struct {
	Labels      []label `json:"labels"`
	Value       bits    `json:"value"`
	TimestampMs *int64  `json:"timestamp_ms"`
	// Where the format carries them, the nanoseconds since 1970 that timestamp_ms cuts off.
	TimestampNs *int64 `json:"timestamp_ns,omitempty"`
}

type sampleLine struct {
	head
	Name        text            `json:"name"`
	Labels      []label         `json:"labels"`
	Value       bits            `json:"value"`
	TimestampMs *int64          `json:"timestamp_ms"`
	CreatedMs   *int64          `json:"created_ms"`
	CreatedNs   *int64          `json:"created_ns,omitempty"`
	Exemplars   []exemplarValue `json:"exemplars"`
}

// bucketSide is one side of a native histogram. Buckets are pairs of index and count, of those that are not
// empty: two readers that cut the spans differently agree on them.
type bucketSide struct {
	Spans   [][2]int64 `json:"spans"`
	Buckets [][2]any   `json:"buckets"`
}

// newBucketSide takes the count of each bucket that the spans name.
func newBucketSide[T uint64 | float64](spans [][2]int64, counts []T) (bucketSide, error) {
	side := bucketSide{Spans: spans, Buckets: [][2]any{}}
	if spans == nil {
		side.Spans = [][2]int64{}
	}
	index, next := int64(0), 0
	for _, span := range spans {
		index += span[0]
		for range span[1] {
			if next == len(counts) {
				return side, fmt.Errorf("the spans name more than the %d buckets given", len(counts))
			}
			if counts[next] != 0 {
				side.Buckets = append(side.Buckets, [2]any{index, countValue(counts[next])})
			}
			next++
			index++
		}
	}
	if next != len(counts) {
		return side, fmt.Errorf("the spans name %d of %d buckets given", next, len(counts))
	}
	return side, nil
}

func countValue[T uint64 | float64](count T) any {
	if float, ok := any(count).(float64); ok {
		return bits(float)
	}
	return count
}

// absolute turns deltas into counts; a count below zero is the writer's fault.
func absolute(deltas []int64) ([]uint64, error) {
	counts := make([]uint64, len(deltas))
	var count int64
	for i, delta := range deltas {
		count += delta
		if count < 0 {
			return nil, fmt.Errorf("the bucket at position %d counts %d", i, count)
		}
		counts[i] = uint64(count)
	}
	return counts, nil
}

// histogramLine is a native histogram; counts are integers, or bits where Float is set.
type histogramLine struct {
	head
	Name          text            `json:"name"`
	Labels        []label         `json:"labels"`
	TimestampMs   *int64          `json:"timestamp_ms"`
	CreatedMs     *int64          `json:"created_ms"`
	CreatedNs     *int64          `json:"created_ns,omitempty"`
	Float         bool            `json:"float"`
	Gauge         bool            `json:"gauge"`
	Schema        int32           `json:"schema"`
	ZeroThreshold bits            `json:"zero_threshold"`
	ZeroCount     any             `json:"zero_count"`
	Count         any             `json:"count"`
	Sum           bits            `json:"sum"`
	Positive      bucketSide      `json:"positive"`
	Negative      bucketSide      `json:"negative"`
	CustomValues  []bits          `json:"custom_values"`
	Exemplars     []exemplarValue `json:"exemplars"`
}

type errorLine struct {
	head
	Error text `json:"error"`
}

type endLine struct {
	head
	Families int `json:"families"`
	Samples  int `json:"samples"`
	// Series that came a second time, and families that came again after another one: the libraries let
	// both pass, a scrape does not.
	DuplicateSeries int `json:"duplicate_series"`
	SplitFamilies   int `json:"split_families"`
}

// lines writes one reader's answer and counts what every reader should have seen once only.
type lines struct {
	reader   string
	encoder  *json.Encoder
	err      error
	families map[text]bool
	current  text
	series   map[string]bool
	closing  endLine
}

func newLines(output io.Writer, reader string) *lines {
	encoder := json.NewEncoder(output)
	encoder.SetEscapeHTML(false)
	return &lines{reader: reader, encoder: encoder, families: map[text]bool{}, series: map[string]bool{}}
}

func (l *lines) head(event string) head { return head{l.reader, event} }

func (l *lines) write(line any) {
	if l.err == nil {
		l.err = l.encoder.Encode(line)
	}
}

func (l *lines) end() {
	l.closing.head = l.head("end")
	l.write(l.closing)
}

func (l *lines) family(name text, kind, help, unit *text) {
	l.enterFamily(name)
	l.closing.Families++
	l.write(familyLine{l.head("family"), name, kind, help, unit})
}

func (l *lines) enterFamily(name text) {
	if name == l.current && l.families[name] {
		return
	}
	if l.families[name] {
		l.closing.SplitFamilies++
	}
	l.families[name] = true
	l.current = name
}

func (l *lines) sample(line sampleLine) {
	line.head = l.head("sample")
	if line.Exemplars == nil {
		line.Exemplars = []exemplarValue{}
	}
	line.Labels = sortedLabels(line.Labels)
	l.countSeries("sample", line.Name, line.Labels, line.TimestampMs)
	l.write(line)
}

func (l *lines) histogram(line histogramLine) {
	line.head = l.head("histogram")
	if line.Exemplars == nil {
		line.Exemplars = []exemplarValue{}
	}
	line.Labels = sortedLabels(line.Labels)
	l.countSeries("histogram", line.Name, line.Labels, line.TimestampMs)
	l.write(line)
}

// countSeries takes the same series at another time for another sample, not for a duplicate.
func (l *lines) countSeries(kind string, name text, labels []label, timestamp *int64) {
	l.enterFamily(l.familyOf(name))
	key := fmt.Sprintf("%s %q %q", kind, name, labels)
	if timestamp != nil {
		key = fmt.Sprintf("%s %d", key, *timestamp)
	}
	l.countKey(key)
}

func (l *lines) countKey(key string) {
	l.closing.Samples++
	if l.series[key] {
		l.closing.DuplicateSeries++
	}
	l.series[key] = true
}

var sampleSuffixes = []string{"_total", "_created", "_bucket", "_count", "_sum", "_gcount", "_gsum", "_info"}

// familyOf finds the family that a sample's name belongs to: the one that was declared, with or without a
// suffix, otherwise one of its own.
func (l *lines) familyOf(name text) text {
	if l.families[name] {
		return name
	}
	for _, suffix := range sampleSuffixes {
		if base, ok := strings.CutSuffix(string(name), suffix); ok && l.families[text(base)] {
			return text(base)
		}
	}
	return name
}
