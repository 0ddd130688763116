package bench;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;

/** What the virtual machine can tell about itself. */
final class Machine {
  private static final com.sun.management.ThreadMXBean THREADS =
      (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
  private static final com.sun.management.OperatingSystemMXBean SYSTEM =
      (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

  private Machine() {}

  /** Bytes that the calling thread has allocated since it started. */
  static long allocatedBytes() {
    return THREADS.getCurrentThreadAllocatedBytes();
  }

  /** Processor time of all threads, those of the collector and the compiler included. */
  static long processorNanos() {
    return SYSTEM.getProcessCpuTime();
  }

  /** Bytes of reachable objects. Several collections, until another one frees nothing more. */
  static long retainedBytes() throws InterruptedException {
    Runtime runtime = Runtime.getRuntime();
    long least = Long.MAX_VALUE;
    for (int i = 0; i < 5; i++) {
      System.gc();
      Thread.sleep(20); // the reference handler's turn
      long used = runtime.totalMemory() - runtime.freeMemory();
      if (used >= least) {
        break;
      }
      least = used;
    }
    return least;
  }

  static String collector() {
    return ManagementFactory.getGarbageCollectorMXBeans().stream()
        .map(GarbageCollectorMXBean::getName)
        .map(name -> name.split(" ")[0])
        .distinct()
        .collect(Collectors.joining("+"));
  }

  static long median(long[] values) {
    long[] sorted = values.clone();
    Arrays.sort(sorted);
    return sorted[sorted.length / 2];
  }

  static String number(String key, double value) {
    return String.format(Locale.ROOT, "%s=%.4g", key, value);
  }
}
