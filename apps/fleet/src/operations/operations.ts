import { didYouMean } from 'spillway-cli';
import { httpError } from 'spillway-http';
import type { OperationContext } from '../context.ts';
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

/** Everything that an operator can ask for, by name. */
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

/** All fields of an operation: what changes something is done by somebody. */
export function fieldsOf({ input, role }: AnyOperation): Fields {
  return role === 'approver' ? { ...input, by } : input;
}

/** Does what an operator asks for, who may do everything; throws `INPUT_INVALID`. */
export async function operate(
  context: OperationContext,
  name: string,
  sent: unknown,
): Promise<unknown> {
  const operation = find(name);
  const faults: FieldFault[] = [];
  const { by: approver, ...input } = readFields(fieldsOf(operation), sent, faults);
  demandFaultless(faults);
  if (approver !== undefined) await demandApprover(context, approver);
  return operation.do(context, input, { username: approver ?? systemUser, isApprover: true });
}

/** Does what a user asks for on a page; throws `ACTION_FORBIDDEN` and `INPUT_INVALID`. */
export async function operateAs(
  context: OperationContext,
  name: string,
  sent: unknown,
  actor: Actor,
): Promise<unknown> {
  const operation = find(name);
  const faults: FieldFault[] = [];
  const input = readFields(operation.input, sent, faults);
  demandFaultless(faults);
  if (operation.role !== 'reader' && !actor.isApprover) {
    const owner = await operation.ownerOf?.(context, input);
    if (owner !== actor.username) {
      const who = owner === undefined ? 'an approver' : `${owner} or an approver`;
      throw fleetError('ACTION_FORBIDDEN', `Only ${who} can do this`);
    }
  }
  return operation.do(context, input, actor);
}

function find(name: string): AnyOperation {
  const operation = operations.get(name);
  if (operation === undefined) {
    const hint = didYouMean(name, operations.keys());
    throw httpError('NOT_FOUND', `there is no operation ${name}${hint}`);
  }
  return operation;
}

async function demandApprover({ users }: OperationContext, name: string): Promise<void> {
  const user = await users.find(name);
  if (user?.groups.includes(approversGroup)) return;
  demandFaultless([{ field: 'by', message: `must be an approver, and ${name} is not one` }]);
}
