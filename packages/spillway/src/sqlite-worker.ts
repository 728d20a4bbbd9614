import './sqlite/thread/host.ts';
