import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Unit } from '../../src/format.ts';
import { guessUnit } from '../../src/unit.ts';

test('units follow from the names in an expression', () => {
  const cases: [string, Unit][] = [
    ['up', 'none'],
    ['node_memory_MemAvailable_bytes', 'bytes'],
    ['sum by (job) (process_resident_memory_bytes{a="x_seconds"})', 'bytes'],
    ['rate(node_network_receive_bytes_total[5m])', 'bytes/s'],
    ['sum without (device_seconds) (irate(node_disk_written_bytes_total[1m]))', 'bytes/s'],
    ['increase(node_disk_written_bytes_total[1m])', 'bytes'],
    ['scrape_duration_seconds', 'seconds'],
    ['histogram_quantile(0.9, rate(request_seconds_bucket[5m]))', 'seconds'],
    ['histogram_quantile(0.9, sum by (le) (rate(body_bytes[5m])))', 'bytes'],
    ['rate(request_seconds_bucket[5m])', 'none'],
    ['request_seconds_bucket', 'none'],
    ['rate(node_cpu_seconds_total[1m])', 'none'],
    ['node_cpu_seconds_total', 'seconds'],
    ['process_start_time_seconds', 'timestamp'],
    ['time() - process_start_time_seconds', 'seconds'],
    ['a_bytes / b_bytes', 'none'],
    ['1 - node_filesystem_avail_bytes / node_filesystem_size_bytes', 'ratio'],
    ['a_bytes + b_bytes', 'bytes'],
    ['a_bytes + b_seconds', 'none'],
    ['count(a_bytes)', 'none'],
    ['up or scrape_duration_seconds', 'none'],
    ['a_bytes offset 1h @ end()', 'bytes'],
    ['a_bytes > +Inf', 'bytes'],
    ['sum(a_bytes) by (x, y)', 'bytes'],
    ['a_bytes > bool 5', 'none'],
    ['a_bytes > 1e3', 'bytes'],
    ['a_bytes offset 5m', 'bytes'],
    ['cache_hit_ratio', 'ratio'],
    ['request_bytes_count', 'none'],
    ['# in_seconds\na_bytes', 'bytes'],
    ['', 'none'],
  ];
  for (const [expr, unit] of cases) assert.equal(guessUnit(expr), unit, expr);
});
