"""The handlers of this deployment: pages as files, a summary per job, messages about what monitors find."""

from handlers import jobs, monitors, pages
from receiver import Router

router = Router(pages.router, jobs.router, monitors.router)
