import { type Html, type HtmlValue, html } from '../html.ts';
import { classes } from './parts.ts';

export interface FieldOptions {
  /** Name that is sent; also the identifier, unless `id` is given. */
  readonly name: string;
  readonly label: string;
  /** Text that was typed, or the present value. @default '' */
  readonly value?: string | undefined;
  /** Help text below the field. @default none */
  readonly hint?: string | undefined;
  /** Error text below, with the values that are valid; marks the field invalid. @default none */
  readonly error?: string | undefined;
  /** The id of the input. @default its name */
  readonly id?: string | undefined;
  /** The kind of input, as in HTML. @default text */
  readonly type?: 'text' | 'password' | 'email' | 'search' | 'url' | 'number' | undefined;
  /** True if the value is a number, aligned to the right. @default false */
  readonly numeric?: boolean | undefined;
  /** True if it must be filled in. @default false */
  readonly required?: boolean | undefined;
  /** Value that browsers may fill in, as in HTML. @default none */
  readonly autocomplete?: string | undefined;
  /** Lines of a field for long text. @default one line */
  readonly rows?: number | undefined;
}

/** A labelled field, with its error below it and the text that was typed in it. */
export function field(options: FieldOptions): Html {
  const { name, value = '', id = name, type = 'text', numeric = false } = options;
  const { required, autocomplete, rows } = options;
  const kind = classes('input', { num: numeric });
  const isWrong = options.error !== undefined && 'true';
  const about = describedBy(id, options);
  const mode = numeric ? 'decimal' : undefined;
  const control =
    rows === undefined
      ? html`<input id="${id}" class="${kind}" type="${type}" name="${name}" value="${value}"
 inputmode="${mode}" required="${required === true}" autocomplete="${autocomplete}"
 aria-invalid="${isWrong}" aria-describedby="${about}">`
      : html`<textarea id="${id}" class="${kind}" name="${name}" rows="${rows}"
 required="${required === true}" aria-invalid="${isWrong}"
 aria-describedby="${about}">${value}</textarea>`;
  return labelled(id, options, control);
}

export interface ChoiceOptions extends Omit<FieldOptions, 'type' | 'numeric' | 'rows'> {
  /** Values with their labels, in the order of the list. */
  readonly choices: readonly (readonly [value: string, words: string])[];
}

/** A labelled list in which one value is chosen. */
export function choice(options: ChoiceOptions): Html {
  const { name, value = '', id = name, choices } = options;
  const isWrong = options.error !== undefined && 'true';
  const items = choices.map(
    ([each, words]) => html`<option value="${each}" selected="${each === value}">${words}</option>`,
  );
  const control = html`<select id="${id}" class="input" name="${name}" aria-invalid="${isWrong}"
 aria-describedby="${describedBy(id, options)}">${items}</select>`;
  return labelled(id, options, control);
}

export interface TickOptions {
  readonly name: string;
  readonly label: string;
  /** True if it is ticked at first. @default false */
  readonly checked?: boolean | undefined;
  /** Value that is sent when it is ticked. @default 'on' */
  readonly value?: string | undefined;
}

/** A labelled checkbox. */
export function tick({ name, label, checked, value = 'on' }: TickOptions): Html {
  return html`<label class="tick"><input type="checkbox" name="${name}" value="${value}"
 checked="${checked === true}"> ${label}</label>`;
}

/** A summary before a form with errors: how many, and a link to each wrong field. */
export function wrongFields(
  errors: Readonly<Record<string, string>>,
  labels: Readonly<Record<string, string>>,
): Html | undefined {
  const names = Object.keys(errors);
  if (names.length === 0) return undefined;
  const links: HtmlValue = names.map(
    (name, at) =>
      html`<span>${at > 0 && ', '}<a href="#${name}">${labels[name] ?? name}</a></span>`,
  );
  const words = names.length === 1 ? 'One field needs' : `${names.length} fields need`;
  return html`<div class="notice is-bad" role="alert">
<p><strong>${words} another value.</strong> ${links}</p></div>`;
}

type Described = Pick<FieldOptions, 'label' | 'hint' | 'error'>;

function labelled(id: string, { label, hint, error }: Described, control: Html): Html {
  return html`<div class="field"><label for="${id}">${label}</label>${control}${
    hint !== undefined && html`<p class="hint" id="${id}-hint">${hint}</p>`
  }${error !== undefined && html`<p class="error" id="${id}-error">${error}</p>`}</div>`;
}

function describedBy(id: string, { hint, error }: Described): string | undefined {
  const names = [error !== undefined && `${id}-error`, hint !== undefined && `${id}-hint`];
  return names.filter((name) => name !== false).join(' ') || undefined;
}
