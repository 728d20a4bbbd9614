import { type Html, type HtmlValue, html } from 'spillway-http';
import {
  button,
  card,
  choice,
  type FieldOptions,
  field,
  hiddenFields,
  notice,
  type PageHeadOptions,
  tick,
  wrongFields,
} from 'spillway-http/kit';
import type { Field, Fields } from '../operations/fields.ts';
import type { QueryTexts } from '../read/answers.ts';
import type { FieldErrors, Shown, Visit } from './visit.ts';

/** A field of a form. Its value and its error are looked up by its name. */
export interface FormField extends Omit<FieldOptions, 'value' | 'error' | 'id'> {
  /** Values of a list of which one is chosen, with their words. @default none */
  readonly choices?: readonly (readonly [value: string, words: string])[] | undefined;
  /** True for a box to tick. @default false */
  readonly isTick?: boolean | undefined;
  /** True if it takes a line of its own. @default false */
  readonly wide?: boolean | undefined;
}

/** Texts of fields and their errors; an error of the whole form has the empty name. */
export interface FormState {
  readonly values: QueryTexts;
  readonly errors?: FieldErrors | undefined;
}

/** A field of an operation in a form: its help is its label and, in parentheses, its hint. */
export function fieldOf(
  name: string,
  { about, rule, kind }: Field<unknown>,
  look: Partial<FormField> = {},
): FormField {
  const [, label = '', more = ''] = /^([^(]+?)(?: \((.+)\))?$/.exec(about ?? rule) ?? [];
  // A form shows the default as its value.
  const hint = more.replace(/(^|; )default.*$/, '');
  return {
    name,
    label: capital(label),
    hint: hint === '' ? undefined : `${capital(hint)}.`,
    numeric: kind === 'integer' || kind === 'number',
    isTick: kind === 'flag',
    ...look,
  };
}

/** Fields of an operation in a form, with what differs there, such as the name. */
export type Looks = Readonly<Record<string, Partial<FormField>>>;

export function fieldsOf(fields: Fields, looks: Looks): FormField[] {
  return Object.entries(looks).map(([name, look]) => {
    return fieldOf(name, fields[name] as Field<unknown>, look);
  });
}

/** The input of an operation, as a form has sent it. */
export function inputOf(fields: Fields, looks: Looks, form: QueryTexts): object {
  const sent = fieldsOf(fields, looks).map(({ name, isTick }, at) => [
    Object.keys(looks)[at],
    isTick ? form[name] !== undefined : form[name],
  ]);
  return Object.fromEntries(sent.filter(([, value]) => value !== undefined));
}

/** The texts of a form for the values that its fields have in an input. */
export function valuesIn(looks: Looks, input: object): QueryTexts {
  const entries = Object.entries(looks).flatMap(([path, { name = path }]) => {
    const value = path.split('.').reduce<unknown>((outer, key) => Object(outer)[key], input);
    if (value === undefined || value === false) return [];
    return [[name, value === true ? 'on' : [value].flat().join(', ')]];
  });
  return Object.fromEntries(entries);
}

/** Faults of an input by the names of the form. */
export function errorsOf(looks: Looks, faults: FieldErrors): FieldErrors {
  const named = Object.entries(faults).map(([name, text]) => [looks[name]?.name ?? name, text]);
  return Object.fromEntries(named);
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Shares of the fleet that forms offer, in percent. */
export const throughputs: readonly string[] = ['10', '25', '50', '100', '200'];

/** Choices for a list of values and the present one, which may not be among the usual ones. */
export function choicesOf(
  value: string,
  usual: readonly string[],
  unit = '',
): NonNullable<FormField['choices']> {
  const all = value === '' || usual.includes(value) ? usual : [value, ...usual];
  return all.map((each) => [each, `${each}${unit}`]);
}

/** Makes the input of each field, with its value and its error. */
export function inputs(fields: readonly FormField[], { values, errors = {} }: FormState): Html[] {
  return fields.map(({ isTick, wide, choices, ...look }) => {
    const { name, label } = look;
    if (isTick) return tick({ name, label, checked: values[name] !== undefined });
    // A form that is shown again keeps all values but secrets.
    const value = look.type === 'password' ? undefined : values[name];
    const common = { ...look, value, error: errors[name] };
    const part = choices === undefined ? field(common) : choice({ ...common, choices });
    return wide === true || look.rows !== undefined ? html`<div class="wide">${part}</div>` : part;
  });
}

/** The errors above a form that is shown again. */
export function complaints(fields: readonly FormField[], { errors = {} }: FormState): Html {
  const { '': whole, ...wrong } = errors;
  const labels = Object.fromEntries(fields.map(({ name, label }) => [name, label]));
  // In the order in which the fields stand.
  const named = fields.filter(({ name }) => name in wrong).map(({ name }) => [name, wrong[name]]);
  const ordered = { ...Object.fromEntries(named), ...wrong };
  return html`${whole && notice({ verdict: 'Not done.', text: whole, tone: 'bad' })}${wrongFields(
    ordered,
    labels,
  )}`;
}

export interface FormPageOptions extends FormState, Pick<PageHeadOptions, 'title' | 'crumbs'> {
  readonly visit: Visit;
  readonly place?: string | undefined;
  readonly card: { readonly id: string; readonly title: string };
  /** Address that it is sent to. @default that of the page */
  readonly action?: string | undefined;
  readonly hidden?: Readonly<Record<string, string>> | undefined;
  readonly fields: readonly FormField[];
  /** Label of the button. */
  readonly submit: string;
  readonly beside?: HtmlValue;
  /** A card beside it. @default none: the form is narrow */
  readonly aside?: Html | undefined;
  /** @default 422 with errors, 200 without */
  readonly status?: number | undefined;
}

/** A page that is one form. */
export function formPage(options: FormPageOptions): Shown {
  const { visit, title, place, crumbs, fields, errors = {}, aside, hidden = {} } = options;
  const body = html`<form class="form" method="post" action="${options.action ?? ''}">
${visit.token}${hiddenFields(hidden)}${inputs(fields, options)}
<div class="row wide">${button({ label: options.submit, look: 'main' })}
${options.beside}</div></form>`;
  const shown = card({ ...options.card, body });
  const main = html`${complaints(fields, options)}
${aside === undefined ? shown : html`<div class="halves">${shown}${aside}</div>`}`;
  const { status = Object.keys(errors).length > 0 ? 422 : 200 } = options;
  const look = aside === undefined ? 'narrow' : 'stack';
  return { title, place, head: { crumbs }, look, main, status };
}
