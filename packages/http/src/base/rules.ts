import { instance, type Rule } from 'spillway/internal';

/** A text of this form; `rule` completes "must be". */
export function matching(form: RegExp, rule: string): Rule<never> {
  return instance((value) => typeof value === 'string' && form.test(value), rule);
}

/** A list of origins. */
export const origins: Rule<never> = instance(
  (value) => Array.isArray(value) && value.every(isOrigin),
  'origins, as https://example.org',
);

function isOrigin(value: unknown): boolean {
  return typeof value === 'string' && URL.parse(value)?.origin === value;
}
