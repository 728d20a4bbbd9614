import { didYouMean } from 'spillway-cli';
import { httpError } from 'spillway-http';
import type { Context } from '../context.ts';
import { fleetError } from '../errors.ts';
import { approversGroup } from '../users/users.ts';
import { systemUser } from '../world/records.ts';
import { bookOperations, contributorOperations, workerOperations } from './catalog-operations.ts';
import {
  demandFaultless,
  type Field,
  type FieldFault,
  type Fields,
  optional,
  readFields,
} from './fields.ts';
import { type Actor, type AnyOperation, accountField } from './operation.ts';
import { runOperations } from './run-operations.ts';
import { sampleOperations } from './sample.ts';
import { userOperations } from './user-operations.ts';

/** All operations by name. */
export const operations: ReadonlyMap<string, AnyOperation> = new Map(
  Object.entries({
    ...userOperations,
    ...runOperations,
    ...workerOperations,
    ...bookOperations,
    ...contributorOperations,
    ...sampleOperations,
  }),
);

const by: Field<string | undefined> = optional({
  ...accountField,
  about: 'the approver who does it (default: the system)',
  flag: '--by <name>',
});

/** All fields of an operation; one that changes something also takes its actor. */
export function fieldsOf({ input, role }: AnyOperation): Fields {
  return role === 'approver' ? { ...input, by } : input;
}

/** Throws `INPUT_INVALID` for faults that are visible in the input alone. */
export function checkInput(operation: AnyOperation, sent: unknown): void {
  const faults: FieldFault[] = [];
  readFields(fieldsOf(operation), sent, faults);
  demandFaultless(faults);
}

/**
 * Runs an operation. Without an actor, everything is allowed; other actors need to be approvers, or
 * owners of what they change. Throws `INPUT_INVALID` and `ACTION_FORBIDDEN`.
 */
export async function operate(
  context: Context,
  name: string,
  sent: unknown,
  actor?: Actor,
): Promise<unknown> {
  const operation = operations.get(name);
  if (operation === undefined) {
    const hint = didYouMean(name, operations.keys());
    throw httpError('NOT_FOUND', `there is no operation ${name}${hint}`);
  }
  const faults: FieldFault[] = [];
  const fields = actor === undefined ? fieldsOf(operation) : operation.input;
  const read: { readonly by?: string } = readFields(fields, sent, faults);
  const { by: approver, ...input } = read;
  demandFaultless(faults);
  if (approver !== undefined) await demandApprover(context, approver);
  if (operation.role !== 'reader' && actor?.isApprover === false) {
    const owner = await operation.ownerOf?.(context, input);
    if (owner !== actor.username) {
      const who = owner === undefined ? 'an approver' : `${owner} or an approver`;
      throw fleetError('ACTION_FORBIDDEN', `Only ${who} can do this`);
    }
  }
  const operator = { username: approver ?? systemUser, isApprover: true };
  return operation.do(context, input, actor ?? operator);
}

async function demandApprover({ users }: Context, name: string): Promise<void> {
  const user = await users.find(name);
  if (user?.groups.includes(approversGroup)) return;
  demandFaultless([{ field: 'by', message: `must be an approver, and ${name} is not one` }]);
}
