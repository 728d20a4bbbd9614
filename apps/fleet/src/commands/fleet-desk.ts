import type { Desk } from '../operations/desk.ts';
import type { Primary } from '../primary.ts';
import type { Settings } from '../settings.ts';
import type { FleetStorage } from '../storage/fleet-storage.ts';
import type { Users } from '../users/users.ts';
import { wallClock } from '../wall-clock.ts';

export interface FleetDeskOptions {
  readonly storage: FleetStorage;
  readonly users: Users;
  readonly primary: Primary;
  readonly settings: Settings;
}
