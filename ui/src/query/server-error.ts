/** Marks the place of a server's error in the editor until the text changes. */
import { StateEffect, StateField, type Extension } from '@codemirror/state';
import { Decoration, EditorView, WidgetType, type DecorationSet } from '@codemirror/view';
import { errorPlace, offsetOf, tokenAt } from './error-place.ts';

const setError = StateEffect.define<string | null>();

class EndMark extends WidgetType {
  override toDOM(): HTMLElement {
    const mark = document.createElement('span');
    mark.className = 'cm-server-error-end';
    return mark;
  }
  override eq(): boolean {
    return true;
  }
}

const field = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, transaction) {
    let next = transaction.docChanged ? Decoration.none : marks;
    for (const effect of transaction.effects) {
      if (effect.is(setError)) next = marksFor(transaction.newDoc.toString(), effect.value);
    }
    return next;
  },
  provide: (self) => EditorView.decorations.from(self),
});

function marksFor(source: string, message: string | null): DecorationSet {
  const place = message === null ? null : errorPlace(message);
  if (place === null) return Decoration.none;
  const from = offsetOf(source, place);
  const token = tokenAt(source, from);
  if (token === '') {
    return Decoration.set(
      Decoration.widget({ widget: new EndMark(), side: 1 }).range(source.length),
    );
  }
  return Decoration.set(
    Decoration.mark({ class: 'cm-server-error' }).range(from, from + token.length),
  );
}

export const serverErrorMarks: Extension = field;

/** Shows the place of `message`, or none. */
export function showServerError(view: EditorView, message: string | null): void {
  view.dispatch({ effects: setError.of(message) });
}
