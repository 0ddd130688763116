/** A profile: its controls, the way to what is zoomed into, the graph and the table of functions. */
import { useMemo, useState } from 'preact/hooks';
import { useAnswer, useInterval } from '../../api/use-answer.ts';
import { pageUrl } from '../../base.ts';
import { formatTime } from '../../format.ts';
import { useSettings } from '../../settings.ts';
import { RefreshIcon } from '../../shell/icons.tsx';
import { Failure, Notice } from '../../shell/notice.tsx';
import { go } from '../../shell/router.ts';
import type { Profile } from '../answers.ts';
import { askProfile } from '../ask.ts';
import { uptime } from '../rates.ts';
import { profileValue, share, span, TYPE_EXPLAINED, TYPE_TITLES } from '../show.ts';
import { stageTitle } from '../stage-names.ts';
import { profileLink, type ProfileState } from '../state.ts';
import { useCost } from '../watch.ts';
import { packageFill } from './colors.ts';
import { Controls } from './controls.tsx';
import { functionsOf, matched, search } from './functions.ts';
import { FlameGraph } from './graph.tsx';
import { packageOf, shorten } from './names.ts';
import { TopTable } from './top-table.tsx';
import { nameOf, nodeOfZoom, pathTo, treeOf, zoomId, type Tree } from './tree.ts';

/** A profile and what it was asked for. */
interface Collected {
  readonly profile: Profile;
  readonly tree: Tree;
  readonly of: ProfileState;
  readonly at: number;
}

export function ProfileView({ state }: { state: ProfileState }) {
  const cost = useCost().value;
  const key = keyOf(state);
  const loaded = useAnswer<Collected>(key, async (signal) => {
    const profile = await askProfile(state.type, state.stage, state.seconds, signal);
    return { profile, tree: treeOf(profile), of: state, at: Date.now() };
  });
  const { value, error, loading } = loaded;
  const change = (next: Partial<ProfileState>, how: 'push' | 'replace') =>
    go(profileLink({ ...state, ...next }), how);
  const lasts = cost === null ? null : uptime(cost.cost);
  return (
    <>
      <Controls
        state={state}
        stages={cost?.cost.stages.map(({ stage }) => stage) ?? []}
        // Typing must not fill the history.
        onChange={(next) => change(next, 'search' in next ? 'replace' : 'push')}
      />
      {error !== null && (
        <>
          <Failure error={error} onRetry={loaded.reload} />
          {error.kind !== 'unreachable' && <HowToTurnOn type={state.type} />}
        </>
      )}
      {loading && <Progress key={key} seconds={state.seconds} onCancel={loaded.cancel} />}
      {value === null && error === null && !loading && (
        <div class="nothing">
          <button class="button" onClick={loaded.reload}>
            {state.seconds > 0 ? `Collect for ${state.seconds} s` : 'Load the profile'}
          </button>
        </div>
      )}
      {value !== null && (
        <Shown
          collected={value}
          state={state}
          outdated={loading && keyOf(value.of) !== key}
          lasts={lasts}
          onReload={loading ? null : loaded.reload}
          onSearch={(text) => change({ search: text }, 'replace')}
          onZoom={(node) => change({ zoom: zoomId(value.tree, node) }, 'push')}
        />
      )}
    </>
  );
}

/** What makes another profile of it; the rest of the state is how one looks at it. */
function keyOf({ type, seconds, stage }: ProfileState): string {
  return `${type} ${seconds} ${stage}`;
}

function HowToTurnOn({ type }: { type: ProfileState['type'] }) {
  const sampled = type === 'cpu' || type === 'wall';
  return (
    <Notice kind="info" title={sampled ? 'Is the profiler on?' : 'Is the heap sampled?'}>
      {sampled ? (
        <>
          Profiles of CPU and elapsed time need <code>--profile.budget</code> above 0; with 0.02 the
          profiler takes at most 2 % of a processor.{' '}
        </>
      ) : (
        <>
          Profiles of the heap need <code>--profile.heap-sample-bytes</code> above 0: with 524288
          one block in about 512 KiB is looked at.{' '}
        </>
      )}
      <a href={pageUrl('flags?search=profile')} data-page>
        What the server runs with
      </a>
    </Notice>
  );
}

/** How far a collection is; for a profile of what was collected already, only that it is coming. */
function Progress({ seconds, onCancel }: { seconds: number; onCancel: () => void }) {
  const [began] = useState(() => performance.now());
  const [passed, setPassed] = useState(0);
  useInterval(() => setPassed((performance.now() - began) / 1000), 200);
  if (seconds === 0 && passed < 0.5) return null;
  const left = Math.max(Math.ceil(seconds - passed), 0);
  return (
    <div class="flame-progress" role="status">
      {seconds > 0 && (
        <progress max={seconds} value={Math.min(passed, seconds)} aria-label="Collecting" />
      )}
      <span>
        {seconds === 0
          ? 'Reading the profile'
          : left > 0
            ? `Collecting: ${left} s left`
            : 'Collected, being written'}
      </span>
      <button class="link" onClick={onCancel}>
        Cancel
      </button>
    </div>
  );
}

interface ShownProps {
  readonly collected: Collected;
  readonly state: ProfileState;
  readonly outdated: boolean;
  /** Seconds since the start of the server, where known. */
  readonly lasts: number | null;
  readonly onReload: (() => void) | null;
  readonly onSearch: (text: string) => void;
  readonly onZoom: (node: number) => void;
}

function Shown(props: ShownProps) {
  const { collected, state, outdated, onSearch, onZoom } = props;
  const { profile, tree } = collected;
  const { dark } = useSettings();
  const focus = useMemo(() => nodeOfZoom(tree, state.zoom), [tree, state.zoom]);
  const hits = useMemo(() => search(tree.names, state.search), [tree, state.search]);
  const { unit } = profile;
  if (!(tree.total[0]! > 0)) {
    return (
      <>
        <Summary {...props} />
        <div class="nothing">
          <strong>Nothing was sampled</strong>
          <p>
            {collected.of.stage === ''
              ? 'Nothing of this kind happened.'
              : 'Nothing of this kind happened in this stage.'}
          </p>
        </div>
      </>
    );
  }
  return (
    <div class={outdated ? 'outdated' : ''}>
      <Summary {...props} />
      <div class="flame-body">
        <div class="flame-column">
          <div class="flame-bar">
            <Crumbs tree={tree} focus={focus} onZoom={onZoom} />
            {hits !== null && <Matched tree={tree} focus={focus} hits={hits} unit={unit} />}
          </div>
          <FlameGraph
            tree={tree}
            unit={unit}
            focus={focus}
            hits={hits}
            label={`Flame graph of ${TYPE_TITLES[collected.of.type]}: arrow keys walk, Enter zooms, Escape shows the whole`}
            onZoom={onZoom}
          />
          <Packages tree={tree} focus={focus} dark={dark} />
        </div>
        <TopTable
          tree={tree}
          unit={unit}
          focus={focus}
          hits={hits}
          search={state.search}
          dark={dark}
          onSearch={onSearch}
          onZoom={onZoom}
        />
      </div>
    </div>
  );
}

function Summary({ collected, state, lasts, onReload }: ShownProps) {
  const { utc } = useSettings();
  const { of, profile, tree, at } = collected;
  const time = formatTime(Math.round(at / 1000) * 1000, utc, false);
  const when =
    of.seconds > 0
      ? `${of.type === 'inuse' ? 'grown' : 'collected'} for ${of.seconds} s until ${time}`
      : of.type === 'inuse'
        ? `at ${time}`
        : `since the start${lasts === null ? '' : ` ${span(lasts)} ago`}, as of ${time}`;
  return (
    <p class="flame-summary">
      <strong>{profileValue(tree.total[0]!, profile.unit)}</strong>
      <span>
        {TYPE_TITLES[of.type]} of {of.stage === '' ? 'the whole process' : stageTitle(of.stage)}:{' '}
        {TYPE_EXPLAINED[of.type]}, {when}
      </span>
      {onReload !== null && (
        <button class="button" onClick={onReload}>
          <RefreshIcon />
          {state.seconds > 0
            ? `Collect ${keyOf(of) === keyOf(state) ? 'again' : 'now'}`
            : 'Refresh'}
        </button>
      )}
    </p>
  );
}

interface CrumbsProps {
  readonly tree: Tree;
  readonly focus: number;
  readonly onZoom: (node: number) => void;
}

/** Calls above what is zoomed into that are named; those between are in the graph. */
const NEAREST = 3;

function Crumbs({ tree, focus, onZoom }: CrumbsProps) {
  const path = pathTo(tree, focus);
  const near = path.slice(1).slice(-NEAREST);
  return (
    <nav class="crumbs" aria-label="Zoomed into">
      <button class="link" disabled={focus === 0} onClick={() => onZoom(0)}>
        All
      </button>
      {path.length - 1 > near.length && <span class="crumb faint">…</span>}
      {near.map((node) => (
        <span class="crumb" key={node}>
          {node === focus ? (
            <span title={nameOf(tree, node)}>{shorten(nameOf(tree, node), 44)}</span>
          ) : (
            <button class="link" title={nameOf(tree, node)} onClick={() => onZoom(node)}>
              {shorten(nameOf(tree, node), 28)}
            </button>
          )}
        </span>
      ))}
    </nav>
  );
}

interface MatchedProps {
  readonly tree: Tree;
  readonly focus: number;
  readonly hits: Uint8Array;
  readonly unit: Profile['unit'];
}

function Matched({ tree, focus, hits, unit }: MatchedProps) {
  const { value, nodes } = useMemo(() => matched(tree, focus, hits), [tree, focus, hits]);
  return (
    <span class="matched" role="status">
      {nodes === 0 ? (
        'no match'
      ) : (
        <>
          <b>{share(value, tree.total[focus]!)}</b> matched, {profileValue(value, unit)}
        </>
      )}
    </span>
  );
}

const MOST_PACKAGES = 10;

/** Whose code it is: packages by what is spent in them, as the key of the colours. */
function Packages({ tree, focus, dark }: { tree: Tree; focus: number; dark: boolean }) {
  const packages = useMemo(() => {
    const sums = new Map<string, number>();
    for (const { name, self } of functionsOf(tree, focus)) {
      const own = packageOf(tree.names[name] ?? '');
      sums.set(own, (sums.get(own) ?? 0) + self);
    }
    return [...sums].filter(([, sum]) => sum > 0).sort(([, a], [, b]) => b - a);
  }, [tree, focus]);
  return (
    <ul class="packages" aria-label="Self by package">
      {packages.slice(0, MOST_PACKAGES).map(([name, sum]) => (
        <li key={name}>
          <i class="swatch" style={{ background: packageFill(name, dark) }} />
          {name === '' ? 'not named' : name}{' '}
          <span class="faint">{share(sum, tree.total[focus]!)}</span>
        </li>
      ))}
    </ul>
  );
}
