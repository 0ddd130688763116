package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// metadata gathers HELP, TYPE and UNIT of one name until something else follows.
type metadata struct {
	name             text
	kind, help, unit *text
	open             bool
}

// entry opens the family's line; the same piece given twice starts a line of its own, and so stays visible.
func (m *metadata) entry(name []byte, piece **text, value string, lines *lines) {
	if m.open && (m.name != text(name) || *piece != nil) {
		m.close(lines)
	}
	m.name, m.open = text(name), true
	given := text(value)
	*piece = &given
}

func (m *metadata) close(lines *lines) {
	if m.open {
		lines.family(m.name, m.kind, m.help, m.unit)
	}
	*m = metadata{}
}

// textparseAs reads as Prometheus scrapes: the labels are checked as its scrape loop checks them, which the
// parser leaves to it. Samples named _created are not listed but are the created_ms of their series.
func textparseAs(contentType string) func([]byte, *lines) error {
	return func(body []byte, lines *lines) error {
		parser, err := textparse.New(body, contentType, labels.NewSymbolTable(), textparse.ParserOptions{
			KeepClassicOnClassicAndNativeHistograms: true,
			OpenMetricsSkipSTSeries:                 true,
		})
		if err != nil {
			return err
		}
		var meta metadata
		for {
			kind, err := parser.Next()
			if errors.Is(err, io.EOF) {
				meta.close(lines)
				return nil
			}
			if err != nil {
				meta.close(lines)
				return err
			}
			switch kind {
			case textparse.EntryHelp:
				name, help := parser.Help()
				meta.entry(name, &meta.help, string(help), lines)
			case textparse.EntryType:
				name, kind := parser.Type()
				meta.entry(name, &meta.kind, string(kind), lines)
			case textparse.EntryUnit:
				name, unit := parser.Unit()
				meta.entry(name, &meta.unit, string(unit), lines)
			case textparse.EntryComment:
			case textparse.EntrySeries:
				meta.close(lines)
				err = parsedSample(parser, lines)
			case textparse.EntryHistogram:
				meta.close(lines)
				err = parsedHistogram(parser, lines)
			default:
				err = fmt.Errorf("unknown entry %d", kind)
			}
			if err != nil {
				return err
			}
		}
	}
}

func parsedSample(parser textparse.Parser, lines *lines) error {
	_, timestamp, value := parser.Series()
	name, set, err := parsedLabels(parser)
	if err != nil {
		return err
	}
	lines.sample(sampleLine{
		Name: name, Labels: set, Value: bits(value), TimestampMs: copied(timestamp),
		Exemplars: parsedExemplars(parser), CreatedMs: parsedCreated(parser),
	})
	return nil
}

func parsedLabels(parser textparse.Parser) (text, []label, error) {
	var set labels.Labels
	parser.Labels(&set)
	if name, twice := set.HasDuplicateLabelNames(); twice {
		return "", nil, fmt.Errorf("label %q is given twice in %s", name, set)
	}
	name := set.Get(model.MetricNameLabel)
	if name == "" || !set.IsValid(model.UTF8Validation) {
		return "", nil, fmt.Errorf("invalid name or labels in %s", set)
	}
	pairs := []label{}
	set.Range(func(l labels.Label) {
		if l.Name != model.MetricNameLabel {
			pairs = append(pairs, label{text(l.Name), text(l.Value)})
		}
	})
	return text(name), pairs, nil
}

func parsedCreated(parser textparse.Parser) *int64 {
	created := parser.StartTimestamp()
	if created == 0 {
		return nil
	}
	return &created
}

func parsedExemplars(parser textparse.Parser) []exemplarValue {
	values := []exemplarValue{}
	for {
		var given exemplar.Exemplar
		if !parser.Exemplar(&given) {
			return values
		}
		var set []label
		given.Labels.Range(func(l labels.Label) { set = append(set, label{text(l.Name), text(l.Value)}) })
		value := exemplarValue{Labels: sortedLabels(set), Value: bits(given.Value)}
		if given.HasTs {
			value.TimestampMs = &given.Ts
		}
		values = append(values, value)
	}
}

func parsedHistogram(parser textparse.Parser, lines *lines) error {
	_, timestamp, integer, float := parser.Histogram()
	name, set, err := parsedLabels(parser)
	if err != nil {
		return err
	}
	line := histogramLine{Float: float != nil}
	if float != nil {
		if err := float.Validate(); err != nil {
			return err
		}
		line.Gauge = float.CounterResetHint == histogram.GaugeType
		line.Schema, line.ZeroThreshold, line.Sum = float.Schema, bits(float.ZeroThreshold), bits(float.Sum)
		line.Count, line.ZeroCount = bits(float.Count), bits(float.ZeroCount)
		line.CustomValues = allBits(float.CustomValues)
		if line.Positive, err = newBucketSide(parsedSpans(float.PositiveSpans), float.PositiveBuckets); err != nil {
			return err
		}
		line.Negative, err = newBucketSide(parsedSpans(float.NegativeSpans), float.NegativeBuckets)
	} else {
		if err := integer.Validate(); err != nil {
			return err
		}
		line.Gauge = integer.CounterResetHint == histogram.GaugeType
		line.Schema, line.ZeroThreshold, line.Sum = integer.Schema, bits(integer.ZeroThreshold), bits(integer.Sum)
		line.Count, line.ZeroCount = integer.Count, integer.ZeroCount
		line.CustomValues = allBits(integer.CustomValues)
		if line.Positive, err = sideOfDeltas(parsedSpans(integer.PositiveSpans), integer.PositiveBuckets); err != nil {
			return err
		}
		line.Negative, err = sideOfDeltas(parsedSpans(integer.NegativeSpans), integer.NegativeBuckets)
	}
	if err != nil {
		return err
	}
	line.Name, line.Labels, line.TimestampMs = name, set, copied(timestamp)
	line.Exemplars, line.CreatedMs = parsedExemplars(parser), parsedCreated(parser)
	lines.histogram(line)
	return nil
}

func parsedSpans(given []histogram.Span) [][2]int64 {
	pairs := make([][2]int64, len(given))
	for i, span := range given {
		pairs[i] = [2]int64{int64(span.Offset), int64(span.Length)}
	}
	return pairs
}

// copied keeps a timestamp that the parser would overwrite with the next sample's.
func copied(timestamp *int64) *int64 {
	if timestamp == nil {
		return nil
	}
	value := *timestamp
	return &value
}
