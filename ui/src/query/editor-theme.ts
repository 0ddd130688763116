/** How the expression editor looks: only variables of the page's theme, so that it follows light and dark. */
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { EditorView } from '@codemirror/view';
import { tags } from '@lezer/highlight';

const highlight = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--code-keyword)' },
  { tag: tags.function(tags.variableName), color: 'var(--code-function)' },
  { tag: tags.labelName, color: 'var(--code-label)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--code-string)' },
  { tag: [tags.number, tags.literal], color: 'var(--code-number)' },
  { tag: tags.comment, color: 'var(--faint)', fontStyle: 'italic' },
  { tag: [tags.operator, tags.modifier], color: 'var(--code-operator)' },
  { tag: [tags.paren, tags.squareBracket, tags.brace], color: 'var(--muted)' },
  { tag: tags.invalid, color: 'var(--bad)' },
]);

const theme = EditorView.theme({
  '&': { backgroundColor: 'transparent', color: 'var(--text)', fontSize: '13.5px' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '20px', maxHeight: '40vh' },
  '.cm-content': { padding: '7px 0', caretColor: 'var(--accent)' },
  '.cm-line': { padding: '0 10px' },
  '.cm-placeholder': { color: 'var(--faint)' },
  '.cm-cursor': { borderLeftColor: 'var(--accent)', borderLeftWidth: '2px' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground':
    { backgroundColor: 'var(--selection)' },
  '&.cm-focused .cm-matchingBracket': {
    backgroundColor: 'var(--accent-soft)',
    outline: '1px solid var(--accent-line)',
  },
  '.cm-nonmatchingBracket, &.cm-focused .cm-nonmatchingBracket': { color: 'var(--bad)' },
  '.cm-lintRange-error, .cm-server-error': {
    backgroundImage: 'none',
    textDecoration: 'underline wavy var(--bad) 1px',
    textUnderlineOffset: '3px',
  },
  '.cm-lintRange-warning': {
    backgroundImage: 'none',
    textDecoration: 'underline wavy var(--warn) 1px',
    textUnderlineOffset: '3px',
  },
  '.cm-server-error': { backgroundColor: 'var(--bad-soft)', borderRadius: '2px' },
  '.cm-server-error-end': {
    display: 'inline-block',
    width: '0.6em',
    borderBottom: '2px solid var(--bad)',
    height: '1.05em',
    verticalAlign: 'text-bottom',
  },
  '.cm-tooltip': {
    backgroundColor: 'var(--raised)',
    border: '1px solid var(--line-strong)',
    borderRadius: '6px',
    boxShadow: 'var(--shadow)',
    overflow: 'hidden',
  },
  '.cm-tooltip.cm-tooltip-below': { marginTop: '12px' },
  '.cm-tooltip.cm-tooltip-above': { marginBottom: '12px' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': {
    fontFamily: 'var(--mono)',
    fontSize: '12.5px',
    maxHeight: '300px',
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li': {
    padding: '3px 10px',
    lineHeight: '18px',
  },
  '.cm-tooltip-autocomplete ul li[aria-selected]': {
    backgroundColor: 'var(--accent-soft)',
    color: 'var(--text)',
  },
  '.cm-completionMatchedText': {
    textDecoration: 'none',
    color: 'var(--accent)',
    fontWeight: '600',
  },
  '.cm-completionDetail': { fontStyle: 'normal', color: 'var(--faint)', marginLeft: '12px' },
  '.cm-tooltip.cm-completionInfo': {
    padding: '8px 10px',
    maxWidth: '380px',
    fontFamily: 'var(--sans)',
    fontSize: '12.5px',
    lineHeight: '17px',
    marginLeft: '4px',
  },
  '.cm-diagnostic': {
    fontFamily: 'var(--sans)',
    fontSize: '12.5px',
    padding: '5px 10px',
    border: '0',
  },
  '.cm-diagnostic-error': { borderLeft: '3px solid var(--bad)' },
  '.cm-diagnostic-warning': { borderLeft: '3px solid var(--warn)' },
});

export const editorLook = [theme, syntaxHighlighting(highlight)];
