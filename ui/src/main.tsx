/** Starts the page. */
import { render } from 'preact';
import './style/base.css';
import './style/shell.css';
import './style/query.css';
import './style/tables.css';
import './settings.ts';
import { App } from './shell/app.tsx';

const root = document.getElementById('app');
if (root !== null) render(<App />, root);
