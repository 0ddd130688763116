/** What profile is shown: type, stage, since when, and what is searched for in it. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { SearchIcon } from '../../shell/icons.tsx';
import { PROFILE_TYPES, type ProfileType } from '../answers.ts';
import { TYPE_EXPLAINED, TYPE_TITLES } from '../show.ts';
import { byStageOrder, stageTitle } from '../stage-names.ts';
import { DURATIONS, type ProfileState } from '../state.ts';

interface Props {
  readonly state: ProfileState;
  readonly stages: readonly string[];
  readonly onChange: (change: Partial<ProfileState>) => void;
}

export function Controls({ state, stages, onChange }: Props) {
  const known = [...new Set([...stages, state.stage])].filter((stage) => stage !== '');
  return (
    <div class="flame-controls">
      <div class="segments" role="group" aria-label="Type of profile">
        {PROFILE_TYPES.map((type) => (
          <button
            key={type}
            title={TYPE_EXPLAINED[type]}
            aria-pressed={state.type === type}
            onClick={() => onChange({ type, zoom: '' })}
          >
            {TYPE_TITLES[type]}
          </button>
        ))}
      </div>
      <label class="select">
        <span class="hidden-text">Stage</span>
        <select
          value={state.stage}
          onChange={(event) => onChange({ stage: event.currentTarget.value, zoom: '' })}
        >
          <option value="">all stages</option>
          {known.sort(byStageOrder).map((stage) => (
            <option key={stage} value={stage}>
              {stageTitle(stage)}
            </option>
          ))}
        </select>
      </label>
      <div class="segments" role="group" aria-label="Time of the profile">
        {DURATIONS.map((seconds) => (
          <button
            key={seconds}
            aria-pressed={state.seconds === seconds}
            onClick={() => onChange({ seconds })}
          >
            {timeTitle(state.type, seconds)}
          </button>
        ))}
      </div>
      <Search text={state.search} onSearch={(search) => onChange({ search })} />
    </div>
  );
}

function timeTitle(type: ProfileType, seconds: number): string {
  if (type === 'inuse') return seconds === 0 ? 'Now' : `Growth in ${seconds} s`;
  return seconds === 0 ? 'Since start' : `Next ${seconds} s`;
}

function Search({ text, onSearch }: { text: string; onSearch: (text: string) => void }) {
  const [typed, setTyped] = useState(text);
  const input = useRef<HTMLInputElement>(null);
  // While someone types, the address follows the field and not the other way round.
  useEffect(() => {
    if (document.activeElement !== input.current) setTyped(text);
  }, [text]);
  return (
    <label class="search">
      <SearchIcon />
      <input
        ref={input}
        class="field"
        type="search"
        data-filter
        placeholder="Find a function"
        aria-label="Find a function"
        value={typed}
        spellcheck={false}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          onSearch(event.currentTarget.value);
        }}
      />
    </label>
  );
}
