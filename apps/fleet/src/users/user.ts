import type { UserRow } from '../storage/fleet-schema.ts';

/** Someone who may send workers, submit runs, or approve them. */
export interface User {
  readonly username: string;
  readonly passwordHash: string;
  /** UNIX milliseconds. */
  readonly registrationTime: number;
  readonly pending: boolean;
  readonly blocked: boolean;
  readonly email: string;
  readonly groups: readonly string[];
  /** Empty, or the address of a repository. */
  readonly testsRepo: string;
  /** Tasks that the user may have at once at one address. */
  readonly machineLimit: number;
}

/** Group of the users that approve runs and users. */
export const approversGroup = 'group:approvers';

export function userOf(row: UserRow): User {
  return {
    username: row.username,
    passwordHash: row.password_hash,
    registrationTime: row.registration_time,
    pending: row.pending === 1,
    blocked: row.blocked === 1,
    email: row.email,
    groups: JSON.parse(row.groups) as string[],
    testsRepo: row.tests_repo,
    machineLimit: row.machine_limit,
  };
}

export function userRow(user: User): UserRow {
  return {
    username: user.username,
    password_hash: user.passwordHash,
    registration_time: user.registrationTime,
    pending: Number(user.pending),
    blocked: Number(user.blocked),
    email: user.email,
    groups: JSON.stringify(user.groups),
    tests_repo: user.testsRepo,
    machine_limit: user.machineLimit,
  };
}
