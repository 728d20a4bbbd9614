import type { Context } from '../context.ts';
import type { Books } from '../files/books.ts';
import { type Field, type Fields, type InputOf, text } from './fields.ts';

/** The user, or the system, on whose behalf an operation runs. */
export interface Actor {
  readonly username: string;
  readonly isApprover: boolean;
}

/** An action of operators. Its command, endpoint and form are made from this description. */
export interface Operation<F extends Fields, Out> {
  /** A line of help. */
  readonly about: string;
  /** Commands without the name of the program. */
  readonly examples: readonly string[];
  readonly input: F;
  /** Fields that the command takes as plain words, in this order. @default none */
  readonly words?: readonly (keyof F & string)[] | undefined;
  /** A reader changes nothing; every change is logged under the name of its actor. */
  readonly role: 'reader' | 'approver';
  /** The user who may do it without being an approver. @default approvers only */
  ownerOf?(context: Context, input: InputOf<F>): string | Promise<string>;
  /** The answer is plain JSON. */
  do(context: Context, input: InputOf<F>, by: Actor): Promise<Out>;
  /** The answer for people. */
  say(answer: Out): string;
  /** Asked on a page before it is done. @default no page has a button for it */
  readonly asks?: Question | undefined;
}

/** The texts of a dialog that confirms an operation. */
export interface Question {
  /** Sentence about what will happen. */
  readonly text: string;
  /** Follows the name of the run in the message when it is done. */
  readonly done: string;
  /** True if it cannot be undone. @default false */
  readonly danger?: boolean | undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: a table has operations of all types.
export type AnyOperation = Operation<any, any>;

/** Checks the types of a description against each other. */
export function operation<F extends Fields, Out>(described: Operation<F, Out>): AnyOperation {
  return described;
}

const fetchMsMax = 5_000;

/** The books that runs can use; a server that has none yet fetches them first. */
export async function knownBooks({ files }: Context): Promise<Books['books']> {
  const { books } = files.books;
  if (books.size > 0) return books;
  await files.refreshBooks(AbortSignal.timeout(fetchMsMax)).catch(() => {});
  return files.books.books;
}

/** The name of an existing account, which may be older than the rule for new names. */
export const accountField: Field<string> = text({
  about: 'the name of an account',
  rule: '1 to 200 characters',
  holds: (value) => value.length >= 1 && value.length <= 200,
});
