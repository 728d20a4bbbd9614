import { type Html, type HtmlValue, html } from '../html.ts';

/** States, each with its shape: tick, cross, play, ring, two bars, triangle, diamond. */
export type StateName =
  | ('accepted' | 'ok' | 'closed' | 'done')
  | ('rejected' | 'open' | 'error')
  | ('active' | 'running')
  | ('pending' | 'idle' | 'warming')
  | ('paused' | 'draining')
  | ('failed' | 'warn')
  | ('ahead' | 'half-open' | 'retry');

/** A state as a word, a shape and a colour; as a pill for rows that a reader scans. */
export function state(name: StateName, word: string, look: 'pill' | 'bare' | 'big' = 'pill'): Html {
  const looks = { pill: 'state pill', bare: 'state', big: 'state pill big' } as const;
  return html`<span class="${looks[look]}" data-state="${name}">${word}</span>`;
}

/** A property as a small label; never coloured. */
export function tag(word: string): Html {
  return html`<span class="tag">${word}</span>`;
}

export interface ButtonOptions {
  readonly label: string;
  /** Address of a button that is a link. @default a button of its form */
  readonly href?: string | undefined;
  /** Identifier of the dialog that the button opens. @default none */
  readonly opens?: string | undefined;
  /** Name and value sent with the form. @default none */
  readonly name?: string | undefined;
  readonly value?: string | undefined;
  /** Weight: one `main` button a page, `bare` beside rows. @default 'plain' */
  readonly look?: 'plain' | 'main' | 'bare' | undefined;
  /** True if the action cannot be undone. @default false */
  readonly danger?: boolean | undefined;
  /** True for a small one, as in a row of a table. @default false */
  readonly little?: boolean | undefined;
  /** Reason why it cannot be used now. @default none: it can */
  readonly disabledBecause?: string | undefined;
  /** True if the button's choice is the present one. @default not a choice */
  readonly pressed?: boolean | undefined;
}

/** A button, or a link that looks like one. A label with `…` means that a question follows. */
export function button(options: ButtonOptions): Html {
  const { label, href, opens, name, value, disabledBecause, pressed } = options;
  const kind = classes('button', {
    main: options.look === 'main',
    bare: options.look === 'bare',
    danger: options.danger === true,
    little: options.little === true,
  });
  const address = opens === undefined ? href : `#${opens}`;
  if (disabledBecause !== undefined) {
    return html`<button type="button" class="${kind}" disabled
 title="${disabledBecause}">${label}</button>`;
  }
  if (address !== undefined) {
    return html`<a class="${kind}" href="${address}" data-opens="${opens}"
 aria-current="${pressed === true && 'true'}">${label}</a>`;
  }
  const isPressed = pressed === undefined ? undefined : String(pressed);
  return html`<button class="${kind}" name="${name}" value="${value}"
 aria-pressed="${isPressed}">${label}</button>`;
}

/** Joins the classes whose condition holds to the first one; gives undefined for none at all. */
export function classes(
  first: string | undefined,
  others: Readonly<Record<string, boolean>>,
): string | undefined {
  const names = Object.keys(others).filter((name) => others[name]);
  return [first ?? [], names].flat().join(' ') || undefined;
}

/** The buttons of one choice, joined together. */
export function group(label: string, buttons: readonly Html[]): Html {
  return html`<div class="group" role="group" aria-label="${label}">${buttons}</div>`;
}

export interface NoticeOptions {
  /** The verdict, in a few words. */
  readonly verdict: string;
  /** Rest of the sentence: the reason, and what happens next. */
  readonly text: HtmlValue;
  /** @default 'plain' */
  readonly tone?: 'plain' | 'good' | 'warn' | 'bad' | undefined;
  /** Button or words in a quiet colour at the right end. @default nothing */
  readonly action?: HtmlValue;
  /** True if it may change while the page is open, and is then read aloud. @default false */
  readonly live?: boolean | undefined;
}

/** The verdict of a page in one sentence, before everything else. */
export function notice({ verdict, text, tone = 'plain', action, live }: NoticeOptions): Html {
  const kind = tone === 'plain' ? 'notice' : `notice is-${tone}`;
  return html`<div class="${kind}" role="${live === true && 'status'}">
<p><strong>${verdict}</strong> ${text}</p>${action}</div>`;
}

/** One figure at the top of a page. */
export interface Stat {
  readonly name: string;
  /** The figure, already formatted. */
  readonly value: string;
  readonly unit?: string | undefined;
  /** One line, in a quiet colour, that explains the figure. */
  readonly note?: HtmlValue;
  /** A sparkline. @default none */
  readonly trend?: Html | undefined;
}

/** Four to six figures at the top of a page. */
export function stats(figures: readonly Stat[]): Html {
  return html`<dl class="stats">${figures.map(stat)}</dl>`;
}

function stat({ name, value, unit, note, trend }: Stat): Html {
  const small = unit !== undefined && html` <small>${unit}</small>`;
  return html`<div class="stat"><dt>${name}</dt><dd>${value}${small}</dd>${
    note !== undefined && html`<dd class="note">${note}</dd>`
  }${trend !== undefined && html`<dd class="trend">${trend}</dd>`}</div>`;
}

/** Names on the left, values on the right. */
export function facts(rows: readonly (readonly [name: string, value: HtmlValue])[]): Html {
  const items = rows.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`);
  return html`<dl class="facts">${items}</dl>`;
}

export interface EmptyOptions {
  readonly title: string;
  /** Description of the missing content, and of its use. */
  readonly text: HtmlValue;
  /** The button that fills it, or drops the filter that found nothing. @default none */
  readonly actions?: HtmlValue;
}

/** Shown in place of content that does not exist yet. */
export function empty({ title, text, actions }: EmptyOptions): Html {
  const row = actions !== undefined && html`<div class="row">${actions}</div>`;
  return html`<div class="empty"><strong>${title}</strong><p>${text}</p>${row}</div>`;
}

/** A message that confirms what a person did. */
export interface Toast {
  readonly text: string;
}

/** Confirms what a person did; read aloud when it appears. */
export function toasts(messages: readonly Toast[]): Html {
  const items = messages.map(({ text }) => html`<div class="toast">${text}</div>`);
  return html`<div class="toasts" role="status">${items}</div>`;
}

/** Hidden fields of a form, such as its CSRF token. */
export function hiddenFields(fields: Readonly<Record<string, string>>): Html {
  const inputs = Object.entries(fields).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  );
  return html`${inputs}`;
}

export interface DialogOptions {
  /** Identifier that buttons open it by. */
  readonly id: string;
  readonly title: string;
  readonly body: HtmlValue;
  /** Address that the form is sent to. */
  readonly action: string;
  /** Hidden fields, such as the CSRF token. @default none */
  readonly fields?: Readonly<Record<string, string>> | undefined;
  /** Verb of the harmless answer, which has the focus: "Let it run". */
  readonly cancel: string;
  /** Verb of the other answer: "Stop the run". */
  readonly confirm: string;
  /** True if the action cannot be undone. @default false */
  readonly danger?: boolean | undefined;
}

/** A question about one action. Without script the opener is a link that leads to it. */
export function dialog(options: DialogOptions): Html {
  const { id, title, body, action, fields = {}, cancel, confirm, danger } = options;
  const hidden = hiddenFields(fields);
  return html`<dialog id="${id}" aria-labelledby="${id}-name">
<form method="post" action="${action}">
${hidden}<div class="dialog-body"><h2 id="${id}-name">${title}</h2>${body}</div>
<div class="dialog-foot"><a class="button" href="#main" data-closes autofocus>${cancel}</a>
${button({ label: confirm, look: 'main', danger })}</div>
</form></dialog>`;
}

/** One of several views of the same thing. */
export interface Tab {
  readonly name: string;
  readonly href: string;
  readonly current?: boolean | undefined;
}

/** Links to the views of the same thing, the current one marked. */
export function tabs(label: string, items: readonly Tab[]): Html {
  const links = items.map(
    ({ name, href, current }) =>
      html`<a href="${href}" aria-current="${current === true && 'true'}">${name}</a>`,
  );
  return html`<nav class="tabs" aria-label="${label}">${links}</nav>`;
}

/** Text that can be copied with a button. */
export function copyable(id: string, text: string): Html {
  return html`<div class="copyable">
<button type="button" class="button little bare" data-copies="${id}">Copy</button>
<pre id="${id}" tabindex="0">${text}</pre></div>`;
}
