import { didYouMean } from 'spillway-cli';
import { httpError } from 'spillway-http';
import { FieldReader } from '../field-reader.ts';
import { bookOperations } from './book-operations.ts';
import type { Desk, Operation } from './desk.ts';
import { runOperations } from './run-operations.ts';
import { userOperations } from './user-operations.ts';

/** All that an operator can ask for, by name. */
export const operations: ReadonlyMap<string, Operation> = new Map(
  Object.entries({ ...userOperations, ...runOperations, ...bookOperations }),
);

/** Does what an operator asks for; throws `INPUT_INVALID` for what cannot be asked for. */
export async function operate(desk: Desk, name: string, input: unknown): Promise<unknown> {
  const operation = operations.get(name);
  if (operation !== undefined) return operation(desk, new FieldReader(input));
  const hint = didYouMean(name, operations.keys());
  throw httpError('NOT_FOUND', `there is no operation ${name}${hint}`);
}
