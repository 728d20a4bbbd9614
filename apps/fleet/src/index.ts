export { fleetProgram } from './commands/program.ts';
export { type FleetService, type OpenFleetOptions, openFleet } from './open-fleet.ts';
