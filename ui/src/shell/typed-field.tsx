/**
 * A text field for something with a grammar (a duration, a time): takes effect on Enter or when left,
 * shows when what stands in it cannot be read, and Esc puts the old value back.
 */
import { useEffect, useState } from 'preact/hooks';

interface Props {
  readonly value: string;
  readonly label: string;
  readonly placeholder?: string;
  readonly class?: string;
  /** Takes the text; false if it cannot be read. */
  readonly onCommit: (text: string) => boolean;
}

export function TypedField({ value, label, placeholder, class: name, onCommit }: Props) {
  const [text, setText] = useState(value);
  const [wrong, setWrong] = useState(false);
  useEffect(() => {
    setText(value);
    setWrong(false);
  }, [value]);
  const commit = () => {
    if (text === value) return;
    const read = onCommit(text);
    setWrong(!read);
  };
  return (
    <input
      class={`field ${name ?? ''}`}
      type="text"
      value={text}
      placeholder={placeholder}
      aria-label={label}
      aria-invalid={wrong}
      title={wrong ? `Not readable as ${label.toLowerCase()}` : label}
      spellcheck={false}
      autocomplete="off"
      onInput={(event) => {
        setText(event.currentTarget.value);
        setWrong(false);
      }}
      onBlur={commit}
      onKeyDown={(event) => {
        if (event.key === 'Enter') commit();
        if (event.key === 'Escape') {
          setText(value);
          setWrong(false);
        }
      }}
    />
  );
}
