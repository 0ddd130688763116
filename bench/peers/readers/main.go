// Command readers reads bodies with libraries that share no code with ours, and tells what they read.
//
// Standard input holds bodies one after another: a line "<format> <length>", then that many bytes. The
// formats are text, openmetrics, protobuf (delimited) and otlp (an ExportMetricsServiceRequest). Standard
// output answers each body with lines of JSON, ended by {"event":"done"}, and is flushed there, so that a
// test can ask one body at a time through one process.
//
// Each line names its reader: expfmt (text, protobuf), textparse (text, openmetrics, protobuf), otlp. A
// reader's lines end with either "end" or "error"; after an error, what it read before stands above it.
//
// Canonical form, the same for all readers:
//   - a float64 is its bits as 16 hexadecimal digits, any integer a JSON number;
//   - labels and attributes are pairs sorted by name, the metric's name apart;
//   - a text that is not UTF-8 is {"hex":"…"};
//   - what is absent is null or left out.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// No test sends more; a larger length is a broken frame.
const bodyBytesMax = 1 << 30

// reader reads the whole body into lines, or says why it refuses it.
type reader struct {
	name string
	read func(body []byte, lines *lines) error
}

var readers = map[string][]reader{
	"text": {
		{"expfmt", readExpfmtText},
		{"textparse", textparseAs("text/plain; version=0.0.4; escaping=allow-utf-8")},
	},
	"openmetrics": {
		{"textparse", textparseAs("application/openmetrics-text; version=1.0.0; escaping=allow-utf-8")},
	},
	"protobuf": {
		{"expfmt", readExpfmtProtobuf},
		{"textparse", textparseAs("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited")},
	},
	"otlp": {
		{"otlp", readOTLP},
	},
}

func main() {
	input := bufio.NewReaderSize(os.Stdin, 1<<16)
	output := bufio.NewWriterSize(os.Stdout, 1<<16)
	for number := 1; ; number++ {
		format, body, err := nextBody(input)
		if err == io.EOF {
			return
		}
		if err == nil {
			err = answer(output, format, body)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "readers: body %d: %v\n", number, err)
			os.Exit(1)
		}
	}
}

// nextBody returns io.EOF only between two bodies.
func nextBody(input *bufio.Reader) (format string, body []byte, err error) {
	head, err := input.ReadString('\n')
	if err == io.EOF && head == "" {
		return "", nil, io.EOF
	}
	if err != nil {
		return "", nil, fmt.Errorf("the line before the body: %w", err)
	}
	format, length, _ := strings.Cut(strings.TrimSuffix(head, "\n"), " ")
	size, err := strconv.ParseUint(length, 10, 64)
	if err != nil || size > bodyBytesMax {
		return "", nil, fmt.Errorf("expected \"<format> <length>\" with at most %d bytes, not %q", bodyBytesMax, head)
	}
	if readers[format] == nil {
		return "", nil, fmt.Errorf("unknown format %q, expected text, openmetrics, protobuf or otlp", format)
	}
	body = make([]byte, size)
	if _, err := io.ReadFull(input, body); err != nil {
		return "", nil, fmt.Errorf("the body of %d bytes: %w", size, err)
	}
	return format, body, nil
}

func answer(output *bufio.Writer, format string, body []byte) error {
	for _, reader := range readers[format] {
		lines := newLines(output, reader.name)
		if err := withoutPanic(reader, body, lines); err != nil {
			lines.write(errorLine{head: lines.head("error"), Error: text(err.Error())})
		} else {
			lines.end()
		}
		if lines.err != nil {
			return lines.err
		}
	}
	if _, err := output.WriteString("{\"event\":\"done\"}\n"); err != nil {
		return err
	}
	return output.Flush()
}

// withoutPanic turns a library's panic into its refusal of this body: the next one is still read.
func withoutPanic(reader reader, body []byte, lines *lines) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return reader.read(body, lines)
}
