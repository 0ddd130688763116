/** The row of a panel that says what is shown: graph or table, range, end, resolution, stacking. */
import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { formatDuration, longerRange, parseDuration, shorterRange } from '../duration.ts';
import { formatTime, parseTime } from '../format.ts';
import { CalendarIcon, LeftIcon, MinusIcon, PlusIcon, RightIcon } from '../shell/icons.tsx';
import { TypedField } from '../shell/typed-field.tsx';
import { stepOf, type Density, type PanelState, type Resolution, type Tab } from '../url-state.ts';

interface Props {
  readonly panel: PanelState;
  readonly utc: boolean;
  readonly onChange: (change: Partial<PanelState>) => void;
  readonly children?: ComponentChildren;
}

export function Controls({ panel, utc, onChange, children }: Props) {
  return (
    <div class="controls">
      <Tabs tab={panel.tab} onChange={(tab) => onChange({ tab })} />
      {panel.tab === 'graph' ? (
        <>
          <RangeControl panel={panel} onChange={onChange} />
          <TimeControl
            time={panel.end}
            step={panel.range / 2}
            label="End time"
            utc={utc}
            onChange={(end) => onChange({ end })}
          />
          <ResolutionControl panel={panel} onChange={onChange} />
          <div class="segments" role="group" aria-label="Drawing">
            <button aria-pressed={!panel.stacked} onClick={() => onChange({ stacked: false })}>
              Lines
            </button>
            <button aria-pressed={panel.stacked} onClick={() => onChange({ stacked: true })}>
              Stacked
            </button>
          </div>
        </>
      ) : (
        <TimeControl
          time={panel.moment}
          step={600_000}
          label="Evaluation time"
          utc={utc}
          onChange={(moment) => onChange({ moment })}
        />
      )}
      {children}
    </div>
  );
}

const TABS: readonly { readonly tab: Tab; readonly title: string }[] = [
  { tab: 'graph', title: 'Graph' },
  { tab: 'table', title: 'Table' },
];

function Tabs({ tab, onChange }: { tab: Tab; onChange: (tab: Tab) => void }) {
  return (
    <div class="tabs" role="tablist" aria-label="View">
      {TABS.map((one) => (
        <button
          key={one.tab}
          role="tab"
          aria-selected={one.tab === tab}
          tabIndex={one.tab === tab ? 0 : -1}
          onClick={() => onChange(one.tab)}
          onKeyDown={(event) => {
            if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
            onChange(tab === 'graph' ? 'table' : 'graph');
            const other =
              event.currentTarget.parentElement?.querySelector<HTMLElement>('[tabindex="-1"]');
            other?.focus();
          }}
        >
          {one.title}
        </button>
      ))}
    </div>
  );
}

function RangeControl({ panel, onChange }: Pick<Props, 'panel' | 'onChange'>) {
  return (
    <div class="joined" role="group" aria-label="Range">
      <button
        onClick={() => onChange({ range: shorterRange(panel.range) })}
        aria-label="Shorter range"
      >
        <MinusIcon />
      </button>
      <TypedField
        class="range"
        label="Range"
        value={formatDuration(panel.range)}
        onCommit={(text) => {
          const range = parseDuration(text);
          if (range !== null) onChange({ range });
          return range !== null;
        }}
      />
      <button
        onClick={() => onChange({ range: longerRange(panel.range) })}
        aria-label="Longer range"
      >
        <PlusIcon />
      </button>
    </div>
  );
}

interface TimeControlProps {
  readonly time: number | null;
  /** How far the arrows go, milliseconds. */
  readonly step: number;
  readonly label: string;
  readonly utc: boolean;
  readonly onChange: (time: number | null) => void;
}

function TimeControl({ time, step, label, utc, onChange }: TimeControlProps) {
  const whole = (ms: number) => Math.round(ms / 1000) * 1000;
  return (
    <div class="joined" role="group" aria-label={label}>
      <button onClick={() => onChange(whole((time ?? Date.now()) - step))} aria-label="Earlier">
        <LeftIcon />
      </button>
      <TypedField
        class="moment"
        label={label}
        placeholder={`${label}: now`}
        value={time === null ? '' : formatTime(time, utc, true)}
        onCommit={(text) => {
          if (text.trim() === '' || text.trim() === 'now') {
            onChange(null);
            return true;
          }
          const read = parseTime(text, utc);
          if (read !== null) onChange(read);
          return read !== null;
        }}
      />
      <Picker time={time ?? Date.now()} label={label} utc={utc} onChange={onChange} />
      <button
        onClick={() => onChange(whole((time ?? Date.now()) + step))}
        aria-label="Later"
        disabled={time === null}
      >
        <RightIcon />
      </button>
      {time !== null && (
        <button class="text" onClick={() => onChange(null)}>
          Now
        </button>
      )}
    </div>
  );
}

interface PickerProps {
  readonly time: number;
  readonly label: string;
  readonly utc: boolean;
  readonly onChange: (time: number) => void;
}

/** The browser's own calendar, behind a button. */
function Picker({ time, label, utc, onChange }: PickerProps) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <span class="picker">
      <input
        ref={input}
        type="datetime-local"
        step="1"
        tabIndex={-1}
        aria-hidden="true"
        value={formatTime(Math.floor(time / 1000) * 1000, utc, true).replace(' ', 'T')}
        onChange={(event) => {
          const picked = parseTime(event.currentTarget.value, utc);
          if (picked !== null) onChange(picked);
        }}
      />
      <button
        onClick={() => input.current?.showPicker()}
        title={`Pick the ${label.toLowerCase()} from a calendar`}
        aria-label={`${label} from a calendar`}
      >
        <CalendarIcon />
      </button>
    </span>
  );
}

const DENSITIES: readonly Density[] = ['low', 'medium', 'high'];
const FIXED = [5, 10, 15, 30, 60, 300, 900, 3600].map((seconds) => seconds * 1000);

function ResolutionControl({ panel, onChange }: Pick<Props, 'panel' | 'onChange'>) {
  const { resolution } = panel;
  const value = resolution.kind === 'auto' ? resolution.density : String(resolution.ms);
  const fixed =
    resolution.kind === 'step' && !FIXED.includes(resolution.ms)
      ? [...FIXED, resolution.ms].sort((a, b) => a - b)
      : FIXED;
  const stepFor = (density: Density) => {
    const step = stepOf({ ...panel, resolution: { kind: 'auto', density } });
    return `${density}, every ${formatDuration(step)}`;
  };
  return (
    <label class="select">
      <span>Resolution</span>
      <select
        value={value}
        onChange={(event) => onChange({ resolution: readResolution(event.currentTarget.value) })}
      >
        {DENSITIES.map((density) => (
          <option key={density} value={density}>
            {stepFor(density)}
          </option>
        ))}
        {fixed.map((ms) => (
          <option key={ms} value={String(ms)}>
            fixed {formatDuration(ms)}
          </option>
        ))}
      </select>
    </label>
  );
}

function readResolution(value: string): Resolution {
  const density = DENSITIES.find((one) => one === value);
  return density === undefined ? { kind: 'step', ms: Number(value) } : { kind: 'auto', density };
}
