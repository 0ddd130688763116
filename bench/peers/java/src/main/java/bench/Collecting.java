package bench;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.sdk.common.CompletableResultCode;
import io.opentelemetry.sdk.common.export.MemoryMode;
import io.opentelemetry.sdk.metrics.ExemplarFilter;
import io.opentelemetry.sdk.metrics.InstrumentType;
import io.opentelemetry.sdk.metrics.SdkMeterProvider;
import io.opentelemetry.sdk.metrics.data.AggregationTemporality;
import io.opentelemetry.sdk.metrics.data.LongPointData;
import io.opentelemetry.sdk.metrics.data.MetricData;
import io.opentelemetry.sdk.metrics.export.CollectionRegistration;
import io.opentelemetry.sdk.metrics.export.MetricReader;
import java.util.Collection;
import java.util.List;

/** The collection of observable counters: what an operation allocates, and what a collection retains. */
final class Collecting {
  private static final int COLLECTIONS_PER_OP = 100;
  private static final int WARM_UP_OPS = 10;

  /** A reader that is asked by hand, so that the measuring thread does all the work itself. */
  private static final class Reader implements MetricReader {
    private final MemoryMode mode;
    private final AggregationTemporality temporality;
    private CollectionRegistration registration = CollectionRegistration.noop();

    Reader(MemoryMode mode, AggregationTemporality temporality) {
      this.mode = mode;
      this.temporality = temporality;
    }

    @Override
    public void register(CollectionRegistration registration) {
      this.registration = registration;
    }

    @Override
    public MemoryMode getMemoryMode() {
      return mode;
    }

    @Override
    public AggregationTemporality getAggregationTemporality(InstrumentType type) {
      return temporality;
    }

    @Override
    public CompletableResultCode forceFlush() {
      return CompletableResultCode.ofSuccess();
    }

    @Override
    public CompletableResultCode shutdown() {
      return CompletableResultCode.ofSuccess();
    }
  }

  private final Reader reader;
  private final SdkMeterProvider provider;
  private final boolean delta;
  private long number;
  private Collection<MetricData> result = List.of();

  private Collecting(String name, int instruments, int limit, Attributes[] sets) {
    MemoryMode mode = name.startsWith("reusable") ? MemoryMode.REUSABLE_DATA : MemoryMode.IMMUTABLE_DATA;
    delta = name.endsWith("delta");
    reader = new Reader(mode, delta ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE);
    provider =
        SdkMeterProvider.builder()
            .registerMetricReader(reader, type -> limit)
            .setExemplarFilter(ExemplarFilter.alwaysOff())
            .build();
    Meter meter = provider.get("bench");
    for (int i = 0; i < instruments; i++) {
      meter
          .counterBuilder("counter" + i)
          .buildWithCallback(
              measurement -> {
                long base = 100 * number;
                for (int a = 0; a < sets.length; a++) {
                  measurement.record(base + a % 100, sets[a]);
                }
              });
    }
  }

  private static Attributes[] attributeSets(int count) {
    AttributeKey<String> key = AttributeKey.stringKey("key");
    Attributes[] sets = new Attributes[count];
    char[] value = new char[26];
    for (int a = 0; a < count; a++) {
      long state = a + 1;
      for (int i = 0; i < value.length; i++) {
        state = state * 6364136223846793005L + 1442695040888963407L;
        value[i] = (char) ('a' + (state >>> 33) % 26);
      }
      sets[a] = Attributes.of(key, new String(value));
    }
    return sets;
  }

  private void collect() {
    number++;
    result = reader.registration.collectAllMetrics();
  }

  /** Refuses a run whose last collection lost points or holds wrong values. */
  private void check(int instruments, int sets) {
    long points = 0;
    for (MetricData metric : result) {
      if (!metric.getName().startsWith("counter")) {
        continue; // the SDK may report on itself
      }
      for (LongPointData point : metric.getLongSumData().getPoints()) {
        long least = delta ? 100 : 100 * number;
        long most = delta ? 100 : 100 * number + 99;
        if (point.getValue() < least || point.getValue() > most) {
          throw new IllegalStateException(
              metric.getName() + " holds " + point.getValue() + " at collection " + number);
        }
        points++;
      }
    }
    if (points != (long) instruments * sets) {
      throw new IllegalStateException(points + " points instead of " + (long) instruments * sets);
    }
  }

  static void run(String name, Options options) {
    int instruments = options.count("instruments", 10);
    int sets = options.count("sets", 1_000);
    int ops = options.count("ops", 10);
    Collecting collecting =
        new Collecting(name, instruments, Math.max(2_000, sets + 1), attributeSets(sets));
    long[] bytes = new long[ops];
    long[] wall = new long[ops];
    long[] processor = new long[ops];
    for (int op = -WARM_UP_OPS; op < ops; op++) {
      long bytesBefore = Machine.allocatedBytes();
      long processorBefore = Machine.processorNanos();
      long wallBefore = System.nanoTime();
      for (int i = 0; i < COLLECTIONS_PER_OP; i++) {
        collecting.collect();
      }
      long wallTaken = System.nanoTime() - wallBefore;
      long processorTaken = Machine.processorNanos() - processorBefore;
      long bytesTaken = Machine.allocatedBytes() - bytesBefore;
      if (op >= 0) {
        wall[op] = wallTaken;
        processor[op] = processorTaken;
        bytes[op] = bytesTaken;
      }
    }
    collecting.check(instruments, sets);
    long points = (long) instruments * sets * COLLECTIONS_PER_OP;
    Main.report(
        "sdk",
        name,
        modeFields(name),
        "points_per_op=" + points,
        "ops=" + ops,
        "bytes_per_op=" + Machine.median(bytes),
        Machine.number("ns_per_point", (double) Machine.median(wall) / points),
        Machine.number("cpu_ns_per_point", (double) Machine.median(processor) / points),
        "gc=" + Machine.collector());
    collecting.provider.close();
  }

  static void runPeak(String name, Options options) throws InterruptedException {
    int instruments = options.count("instruments", 50);
    int sets = options.count("sets", 100_000);
    Attributes[] attributes = attributeSets(sets);
    long base = Machine.retainedBytes();
    Collecting collecting = new Collecting(name, instruments, sets + 1, attributes);
    long wall = 0;
    for (int i = 0; i < 4; i++) {
      long before = System.nanoTime();
      collecting.collect();
      wall = System.nanoTime() - before;
    }
    long retained = Machine.retainedBytes() - base;
    collecting.check(instruments, sets);
    collecting.result = List.of();
    long released = Machine.retainedBytes() - base;
    long points = (long) instruments * sets;
    Main.report(
        "sdk-peak",
        name,
        modeFields(name),
        "points=" + points,
        "retained_bytes=" + retained,
        Machine.number("bytes_per_point", (double) retained / points),
        Machine.number("bytes_per_point_released", (double) released / points),
        Machine.number("last_collection_ns_per_point", (double) wall / points),
        "gc=" + Machine.collector());
    // Reachable until here: the collector would otherwise be free to take it before it is counted.
    java.lang.ref.Reference.reachabilityFence(attributes);
    collecting.provider.close();
  }

  private static String modeFields(String name) {
    String[] parts = name.split("-");
    return "mode=" + parts[0] + " temporality=" + parts[1];
  }
}
