/** Where CPU and allocations go: a row per stage, from which one click leads to its profiles. */
import { pageUrl } from '../base.ts';
import { seriesColor } from '../palette.ts';
import { useSettings } from '../settings.ts';
import type { ProfileType } from './answers.ts';
import { perSample, type StageUse, type Use } from './rates.ts';
import { amount, BAR, bytesPer, NO_FIGURE, perSecond, share, short, TYPE_TITLES } from './show.ts';
import { SortTable, type Column } from './sort-table.tsx';
import { byStageOrder, stageColor, stageExplained, stageOrder, stageTitle } from './stage-names.ts';
import { profileLink } from './state.ts';

export function Stages({ use }: { use: Use }) {
  const { dark } = useSettings();
  const rows = [...use.stages].sort((a, b) => byStageOrder(a.stage, b.stage));
  return (
    <section class="cost-section">
      <h2>Stages</h2>
      <SortTable
        label="Stages"
        columns={columns(use, dark)}
        rows={rows}
        id={({ stage }) => stage}
        foot={sumOf(use)}
      />
    </section>
  );
}

/** Name of the row of sums; no stage has a blank in its name. */
const WHOLE = 'the whole';

function sumOf(use: Use): StageUse {
  const sum = (of: (stage: StageUse) => number) =>
    use.stages.reduce((all, one) => all + of(one), 0);
  return {
    stage: WHOLE,
    cpuSeconds: use.stagedSeconds,
    allocations: sum((stage) => stage.allocations),
    allocatedBytes: sum((stage) => stage.allocatedBytes),
  };
}

function columns(use: Use, dark: boolean): readonly Column<StageUse>[] {
  const { samples, seconds, stagedSeconds } = use;
  // Without a profiler nothing is known, which is not the same as zero.
  const cpu = (row: StageUse) => (stagedSeconds > 0 ? row.cpuSeconds : null);
  const figure = (
    key: string,
    title: string,
    hint: string,
    value: (row: StageUse) => number | null,
    show: (value: number | null) => string,
  ): Column<StageUse> => ({
    key,
    title,
    hint,
    number: true,
    value,
    show: (row) => show(value(row)),
  });
  const nanoseconds = (row: StageUse) => {
    const of = cpu(row);
    return of === null ? null : perSample(of * 1e9, samples);
  };
  return [
    {
      key: 'stage',
      title: 'Stage',
      value: ({ stage }) => stageOrder(stage),
      show: ({ stage }) => <Name stage={stage} dark={dark} />,
    },
    {
      key: 'share',
      title: 'CPU share',
      hint: 'Share of all CPU time that was sampled',
      number: true,
      value: cpu,
      show: (row) => <Share part={cpu(row)} whole={stagedSeconds} />,
    },
    figure('cpu', 'CPU', 'CPU time per second: 1 s/s is one processor', cpu, (value) =>
      value === null ? NO_FIGURE : perSecond(value / seconds),
    ),
    figure('ns', 'Per sample', 'CPU time per ingested sample', nanoseconds, (value) =>
      value === null ? NO_FIGURE : short(value / 1e9, 'seconds'),
    ),
    figure(
      'allocations',
      'Allocations per sample',
      'Blocks allocated per ingested sample',
      (row) => perSample(row.allocations, samples),
      amount,
    ),
    figure(
      'bytes',
      'Bytes per sample',
      'Bytes allocated per ingested sample',
      (row) => perSample(row.allocatedBytes, samples),
      bytesPer,
    ),
    figure(
      'rate',
      'Allocated',
      'Bytes allocated per second',
      (row) => row.allocatedBytes,
      (value) => short((value ?? 0) / seconds, 'bytes/s'),
    ),
    { key: 'profiles', title: 'Profiles', show: ({ stage }) => <Profiles stage={stage} /> },
  ];
}

function Name({ stage, dark }: { stage: string; dark: boolean }) {
  if (stage === WHOLE) return <>All stages</>;
  return (
    <span class="stage-name">
      <i class="swatch" style={{ background: seriesColor(stageColor(stage), dark) }} />
      <span>
        <a href={pageUrl(profileLink({ type: 'cpu', stage }))} data-page>
          {stageTitle(stage)}
        </a>
        <small>{stageExplained(stage)}</small>
      </span>
    </span>
  );
}

function Share({ part, whole }: { part: number | null; whole: number }) {
  if (part === null) return <>{NO_FIGURE}</>;
  return (
    <span class="share">
      <i style={{ width: `${whole > 0 ? Math.min((part / whole) * BAR, BAR) : 0}px` }} />
      <span>{share(part, whole)}</span>
    </span>
  );
}

const LINKS: readonly ProfileType[] = ['cpu', 'allocated', 'inuse'];

function Profiles({ stage }: { stage: string }) {
  const of = stage === WHOLE ? '' : stage;
  return (
    <span class="profile-links">
      {LINKS.map((type) => (
        <a
          key={type}
          href={pageUrl(profileLink({ type, stage: of }))}
          data-page
          aria-label={`${TYPE_TITLES[type]}, ${stage === WHOLE ? WHOLE : stageTitle(stage)}`}
        >
          {TYPE_TITLES[type]}
        </a>
      ))}
    </span>
  );
}
