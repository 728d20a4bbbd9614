import { SpillwayError } from 'spillway';
import { InputError } from '../operations/fields.ts';

/** Texts beside fields, by the name of the field. */
export type FieldErrors = Readonly<Record<string, string>>;

/** Complaints by field; under no name if the whole was refused; undefined for any other failure. */
export function faultsOf(error: unknown): FieldErrors | undefined {
  if (error instanceof InputError) {
    const entries = error.faults.map(({ field, message }) => [field, sentence(message)] as const);
    return Object.fromEntries(entries.reverse());
  }
  const isRefusal = error instanceof SpillwayError && error.code === 'REQUEST_REFUSED';
  return isRefusal ? { '': sentence(error.message) } : undefined;
}

/** Runs the work. Gives its refusal in words for people, if there is one; throws other failures. */
export async function refusalText(work: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    const faults = faultsOf(error);
    if (faults === undefined) throw error;
    return Object.values(faults).join(' ');
  }
}

function sentence(text: string): string {
  const plain = text.replace(/^(id|by): /, '');
  const start = plain.charAt(0).toUpperCase() + plain.slice(1);
  return /[.!?]$/.test(start) ? start : `${start}.`;
}
