"""The long-running processes: webhook, controller, scheduler, console, or all in one."""
