/** The configuration in effect, as the server prints it, with comments, keys and values told apart. */
import { useState } from 'preact/hooks';
import { ask } from '../api/client.ts';
import { useAnswer } from '../api/use-answer.ts';
import { Failure } from '../shell/notice.tsx';

const load = (signal: AbortSignal) => ask<{ yaml: string }>('status/config', {}, signal);

export function ConfigPage() {
  const loaded = useAnswer('config', load);
  const [copied, setCopied] = useState(false);
  const { value, error } = loaded;
  const yaml = value?.data.yaml ?? '';
  const copy = () => {
    void navigator.clipboard.writeText(yaml).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    });
  };
  return (
    <div class="page">
      <div class="page-head">
        <h1 class="hidden-text">Configuration</h1>
        {/* Browsers give the clipboard to secure pages only. */}
        {yaml !== '' && 'clipboard' in navigator && (
          <button class="button" onClick={copy}>
            {copied ? 'Copied' : 'Copy'}
          </button>
        )}
      </div>
      {error !== null && <Failure error={error} onRetry={loaded.reload} />}
      {value !== null && yaml === '' && (
        <p class="faint">The server runs without a configuration file.</p>
      )}
      {yaml !== '' && (
        <pre class="yaml" tabIndex={0} aria-label="Configuration">
          {yaml.split('\n').map((line, index) => (
            <YamlLine key={index} line={line} />
          ))}
        </pre>
      )}
    </div>
  );
}

const LINE = /^(\s*(?:- )*)(?:([^\s#:'"][^:'"]*?)(:)(?=\s|$))?(.*)$/;

function YamlLine({ line }: { line: string }) {
  if (/^\s*#/.test(line)) return <span class="yaml-comment">{`${line}\n`}</span>;
  const [, indent = '', key, colon, rest = line] = LINE.exec(line) ?? [];
  return (
    <span>
      {indent}
      {key !== undefined && <span class="yaml-key">{key}</span>}
      {colon}
      <span class={classOf(rest.trim())}>{rest}</span>
      {'\n'}
    </span>
  );
}

function classOf(value: string): string {
  if (/^-?\d[\w.]*$/.test(value)) return 'yaml-number';
  if (/^(true|false|null|~)$/.test(value)) return 'yaml-word';
  return 'yaml-text';
}
